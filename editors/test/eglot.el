;;; eglot.el --- linelens in Emacs, as a plain client  -*- lexical-binding: t; -*-

;; emacs -Q --batch -l INIT -l eglot.el WORKSPACE

(require 'eglot)
(require 'flymake)
(require 'cl-lib)

(defvar check-passed 0)
(defvar check-failed 0)

(defun say (format &rest arguments)
  (princ (apply #'format (concat format "\n") arguments)))

(defun check (what ok &optional found)
  (if ok
      (progn (cl-incf check-passed) (say "ok      %s" what))
    (cl-incf check-failed)
    (say "FAILED  %s\n        found: %S" what found)))

(defun wait-for (condition)
  "Wait for CONDITION, a function, to give something true."
  (let ((deadline (+ (float-time) 20)) found)
    (while (and (not (setq found (funcall condition))) (< (float-time) deadline))
      (accept-process-output nil 0.05))
    found))

(defun marked ()
  "The texts that diagnostics of ours mark."
  (sort (mapcar (lambda (diagnostic)
                  (buffer-substring-no-properties (flymake-diagnostic-beg diagnostic)
                                                  (flymake-diagnostic-end diagnostic)))
                (flymake-diagnostics))
        #'string<))

(defun go-to (text)
  (goto-char (point-min))
  (search-forward text)
  (goto-char (match-beginning 0)))

(defun hover ()
  (let (text)
    (eglot-hover-eldoc-function (lambda (string &rest _) (setq text (or string ""))))
    (wait-for (lambda () text))))

(defun action (title)
  (cl-find-if (lambda (action) (string-match-p title (plist-get action :title)))
              (eglot-code-actions (point) (point))))

(defun annotations ()
  (let ((file (expand-file-name ".linelens/annotations.jsonl")))
    (if (file-exists-p file)
        (with-temp-buffer (insert-file-contents file) (buffer-string))
      "")))

(defun last-message (text)
  (with-current-buffer "*Messages*"
    (save-excursion (goto-char (point-min)) (search-forward text nil t))))

(setq eglot-sync-connect 30
      eglot-autoshutdown nil
      vc-handled-backends nil
      make-backup-files nil)

(let ((workspace (file-name-as-directory (pop command-line-args-left))))
  (find-file (expand-file-name "columns.c" workspace))
  (unless (derived-mode-p 'c-mode) (c-mode))
  (apply #'eglot (eglot--guess-contact))
  (let ((server (eglot-current-server)))
    (check "eglot starts the server of the page" (and server (jsonrpc-running-p server)))
    (check "the encoding is the first that eglot names"
           (equal (plist-get (eglot--capabilities server) :positionEncoding) "utf-32")
           (eglot--capabilities server))
    (flymake-start)
    (wait-for (lambda () (= 3 (length (marked)))))
    (check "diagnostics mark the names of functions, behind characters beyond ASCII too"
           (equal (marked) '("one" "three" "two")) (marked))
    (check "they are notes, not errors"
           (cl-every (lambda (diagnostic) (eq (flymake-diagnostic-type diagnostic) 'eglot-note)) (flymake-diagnostics))
           (mapcar #'flymake-diagnostic-type (flymake-diagnostics)))
    (go-to "two(int b)")
    (let ((text (hover)))
      (check "a hover on a name has the verdict" (and text (string-match-p "two" text) (string-match-p "attention" text))
             text))
    (check "code actions are offered" (action "compare methods") (eglot-code-actions (point) (point)))
    (eglot-execute server (action "label the function vulnerable"))
    (check "labelling writes the annotation file, for the right function"
           (wait-for (lambda () (string-match-p "\"function\":\"two\"" (annotations)))) (annotations))
    (check "and says so" (wait-for (lambda () (last-message "linelens: "))) (annotations))
    (linelens-next-method)
    (check "the command of the page takes the next method"
           (wait-for (lambda () (last-message "linelens: attention:last"))))
    (goto-char (point-min))
    (insert "/* « above » */\n")
    (eglot--signal-textDocument/didChange)
    (check "an edit moves the diagnostics along"
           (wait-for (lambda ()
                       (flymake-start)
                       (and (equal (marked) '("one" "three" "two"))
                            (cl-every (lambda (diagnostic)
                                        (>= (line-number-at-pos (flymake-diagnostic-beg diagnostic)) 2))
                                      (flymake-diagnostics)))))
           (marked))
    (let ((process (jsonrpc--process server)))
      (set-buffer-modified-p nil)
      ;; `eglot-shutdown' says the same, and kills what has not ended after 0.1 s.
      (jsonrpc-request server :shutdown nil)
      (jsonrpc-notify server :exit nil)
      (check "the server ends" (wait-for (lambda () (not (process-live-p process)))))
      (check "with exit code 0" (equal (process-exit-status process) 0) (process-exit-status process)))))

(say "\nEglot: %d passed, %d failed" check-passed check-failed)
(kill-emacs (if (> check-failed 0) 1 0))
