#!/usr/bin/env python3
"""Tests of the training pipeline on functions made up here: `python models/train/test_train.py` (a minute; needs requirements.txt)."""
import json
import os
import tempfile
import unittest

import numpy as np

import evaluate
import lldata
import measures


def row(number, target, pair=None, func="int f(void) { return 0; }", project="p", source="mined"):
    return {"id": str(number), "source": source, "project": project, "func": func, "target": target, "pair_id": pair}


def split_of(lengths, rows):
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return lldata.Split(rows, np.arange(starts[-1], dtype=np.int32) % 90 + 5, starts)


class Measures(unittest.TestCase):
    def test_auc_is_the_share_of_couples_ranked_right_ties_half(self):
        rng = np.random.default_rng(0)
        p, n = rng.integers(0, 5, 40).astype(float), rng.integers(0, 5, 30).astype(float)
        by_hand = np.mean([(a > b) + 0.5 * (a == b) for a in p for b in n])
        self.assertAlmostEqual(measures.auc(p, n), by_hand, 12)

    def test_average_precision_takes_equal_scores_as_one_threshold(self):
        labels, scores = np.array([True, False, True, False]), np.array([0.9, 0.8, 0.8, 0.1])
        self.assertAlmostEqual(measures.average_precision(labels, scores), 0.5 * 1 + 0.5 * 2 / 3, 12)

    def test_what_length_explains_is_gone_among_functions_of_like_length(self):
        length = np.repeat([10, 20, 30, 40, 50], 20)
        labels = np.tile([True] * 10 + [False] * 10, 5)
        self.assertAlmostEqual(measures.auc_of_like_length(length, labels, length.astype(float)), 0.5, 12)
        self.assertAlmostEqual(measures.auc_of_like_length(length, labels, labels.astype(float)), 1.0, 12)
        self.assertEqual(measures.auc_of_like_length(length, np.ones(100, dtype=bool), length), 0.5)

    def test_the_budget_is_kept_even_with_ties(self):
        for benign in (np.arange(100.0), np.zeros(50), np.repeat([0.0, 1.0], 50), np.arange(7.0)):
            self.assertLessEqual((benign > measures.budget(benign)).mean(), 0.1)
        self.assertEqual((np.arange(100.0) > measures.budget(np.arange(100.0))).mean(), 0.1)

    def test_calibration_error_is_the_mean_gap(self):
        labels = np.tile([1, 0, 0, 0], 50)
        self.assertAlmostEqual(measures.calibration_error(labels, np.full(200, 0.25)), 0.0, 12)
        self.assertAlmostEqual(measures.calibration_error(labels, np.full(200, 0.65)), 0.4, 12)
        p = np.repeat([0.2, 0.6], 100)  # one bin right, the other 0.1 too high
        labels = np.concatenate([np.arange(100) < 20, np.arange(100) < 50])
        self.assertAlmostEqual(measures.calibration_error(labels, p), 0.05, 12)

    def test_pairs_of_like_length_differ_by_a_twentieth_at_most(self):
        self.assertEqual(measures.of_like_length(np.array([95, 94, 100]), np.array([100, 100, 95])).tolist(), [True, False, True])


class Data(unittest.TestCase):
    def test_windows_cover_everything_and_overlap_by_a_quarter(self):
        self.assertEqual(lldata.windows(510), [(0, 510)])
        self.assertEqual(lldata.windows(511), [(0, 510), (1, 511)])
        self.assertEqual(lldata.windows(892), [(0, 510), (382, 892)])
        self.assertEqual(lldata.windows(893), [(0, 510), (382, 892), (383, 893)])

    def test_files_are_found_in_the_folder_and_its_two_parts(self):
        with tempfile.TemporaryDirectory() as folder:
            wanted = []
            for name in ("test.jsonl", "published/test.jsonl.gz", "mined/mined-test.jsonl"):
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                open(path, "w").close()
                wanted.append(path)
            self.assertEqual(lldata.files_of([folder], "test"), wanted)
            with self.assertRaisesRegex(SystemExit, "no train.jsonl"):
                lldata.load_split([folder], "train")

    def test_a_fix_without_its_function_is_neither_pair_nor_unpaired(self):
        split = split_of([1] * 5, [row(0, 1, "a"), row(1, 0, "a"), row(2, 0, "b"), row(3, 0), row(4, 1)])
        self.assertEqual(split.pairs, [(0, 1)])
        self.assertEqual(split.unpaired.tolist(), [False, False, False, True, True])

    def test_batches_of_windows_hold_each_window_once_and_keep_the_budget(self):
        split = split_of([3, 600, 20, 510], [row(i, 0) for i in range(4)])
        seen = []
        for part in lldata.window_batches(split, range(4), tokens=1100):
            ids, mask = lldata.pad([code for _, code in part])
            self.assertTrue(ids.size <= 1100 or len(part) == 1)
            self.assertEqual(mask.sum(1).tolist(), [len(code) + 2 for _, code in part])
            seen += [(i, len(code)) for i, code in part]
        self.assertEqual(sorted(seen), [(0, 3), (1, 510), (1, 510), (2, 20), (3, 510)])


class Card(unittest.TestCase):
    def test_seeds_are_shown_as_mean_and_sample_deviation(self):
        self.assertEqual(evaluate.mean_and_deviation([[7, 0.5, None], [7, 0.6, None], [7, 0.7, None]]), [7, "0.600 ± 0.100", None])

    def test_rows_of_one_class_have_no_area_and_rows_without_fixes_no_pairs(self):
        split = split_of([5, 6, 7], [row(0, 1, "a"), row(1, 0, "a"), row(2, 0)])
        scores = np.array([0.9, 0.2, 0.1])
        line = dict(zip(evaluate.ROWS, evaluate.figures(split, np.array([False, True, True]), scores, 0.5)))
        self.assertEqual((line["ROC-AUC"], line["flag rate"]), (None, 0.0))
        self.assertIsNone(evaluate.paired(split, np.array([True, False, True]), scores, 0.5))
        everything = np.ones(3, dtype=bool)
        self.assertEqual(evaluate.paired(split, everything, scores, 0.5)[:6], [1, 1.0, 0.0, 0.0, 0.0, 1.0])
        table = evaluate.table("rows", evaluate.ROWS, split, {"d": [(scores, 0.5, True), (scores / 2, 0.5, True)]}, lambda *g: evaluate.figures(split, *g))
        self.assertIn("d, mean ± sd of 2 seeds | 3 | 0.333 | 1.000", table)


def made_up(count, seed):
    """Pairs whose fix checks an index, and unpaired functions that do other things."""
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(count):
        name, size, project = rng.choice(["buf", "line", "name"]), int(rng.integers(8, 64)), f"p{k % 3}"
        head = f"int f{k}(char *{name}, int n) {{ int i{k} = n * {size};"
        use = f" {name}[i{k}] = 0; return n; }}"
        rows.append(row(f"{seed}v{k}", 1, f"{seed}p{k}", head + use, project))
        rows.append(row(f"{seed}f{k}", 0, f"{seed}p{k}", f"{head} if (i{k} >= {size}) return -1;{use}", project))
        rows.append(row(f"{seed}b{k}", 0, None, f"void g{k}(int n) {{ while (n > {size}) {{ n -= {k}; log_it(n); }} }}", project))
    return rows


class Training(unittest.TestCase):
    def setUp(self):
        import train

        self.train = train

    def test_both_windows_of_a_pair_are_equally_long_and_masked_alike(self):
        rng = np.random.default_rng(3)
        for _ in range(300):
            common = rng.integers(5, 50, int(rng.integers(4, 60)))
            at = int(rng.integers(0, len(common)))
            added = rng.integers(50, 60, int(rng.integers(1, 30)))
            fixed = np.concatenate([common[:at], added, common[at:]])
            window = int(rng.integers(4, 80))
            a, b = self.train.pair_windows(common, fixed, window, 0.3, rng)
            self.assertEqual(len(a), len(b))
            self.assertEqual(len(a), min(window, len(common)))
        a, b = self.train.pair_windows(common, common, 16, 0.3, rng)
        self.assertEqual(a.tolist(), b.tolist())

    def test_the_weights_leave_no_difference_of_length_or_project(self):
        rng = np.random.default_rng(0)
        projects = np.where(np.arange(400) % 2 == 1, rng.choice(3, 400, p=[0.6, 0.3, 0.1]), rng.choice(3, 400, p=[0.2, 0.2, 0.6]))
        rows = [row(i, i % 2, project=f"p{p}") for i, p in enumerate(projects)]
        split = split_of(rng.integers(10, 100, 400) + 40 * (np.arange(400) % 2), rows)
        vulnerable, benign = np.nonzero(split.target == 1)[0], np.nonzero(split.target == 0)[0]
        flat = self.train.balance(projects, vulnerable, benign, 1.0)
        mixes = [np.bincount(projects[group], weights=flat[group]) for group in (vulnerable, benign)]
        np.testing.assert_allclose(mixes[0], mixes[1], rtol=1e-5)
        self.assertTrue((self.train.balance(projects, vulnerable, benign, 0.0) == 1).all())
        both = self.train.class_weights(split, vulnerable, benign, 0.5, 1.0)
        self.assertAlmostEqual(both[vulnerable].mean(), 1.0, 5)
        self.assertAlmostEqual(both[benign].mean(), 1.0, 5)

    def test_a_state_from_before_the_descent_serves_longer_runs(self):
        rate = self.train.learning_rate
        self.assertEqual([rate(s, 100, 1.0) for s in range(40, 70)], [rate(s, 1000, 1.0) for s in range(40, 70)])
        self.assertLess(rate(99, 100, 1.0), 0.05)
        with tempfile.TemporaryDirectory() as folder:
            latest, stable = os.path.join(folder, "state.pt"), os.path.join(folder, "stable.pt")
            self.assertIsNone(self.train.resumable(latest, stable, 100))
            self.train.save(latest, step=90, steps=100)
            self.train.save(stable, step=70, steps=100)
            self.assertEqual(self.train.resumable(latest, stable, 100)["step"], 90)
            self.assertEqual(self.train.resumable(latest, stable, 120)["step"], 70)
            self.assertEqual(self.train.resumable(latest, stable, 200)["step"], 70)
            self.assertIsNone(self.train.resumable(latest, stable, 80))
            self.train.save(latest, step=90, steps=400)
            self.assertEqual(self.train.resumable(latest, stable, 200)["step"], 90)

    def test_the_fast_pass_is_the_librarys(self):
        import torch

        args = self.train.arguments(["--data", "d", "--work", "w", "--out", "o", "--hidden", "32"])
        model = self.train.classifier(self.train.configuration(args, 100)).eval()
        ids, mask = self.train.pad_batch([np.arange(5, 60), np.arange(5, 12), np.array([7])])
        with torch.no_grad():
            logits = model(input_ids=ids, attention_mask=mask).logits
            difference = self.train.margins_of(model, ids, mask, torch.float32) - (logits[:, 1] - logits[:, 0])
            every = self.train.hidden_of(model, ids, mask, torch.float32, first=False)
            library = model.roberta(input_ids=ids, attention_mask=mask).last_hidden_state
        self.assertLess(difference.abs().max().item(), 1e-5)
        self.assertLess((every - library)[mask.bool()].abs().max().item(), 1e-5)

    def test_an_interrupted_run_ends_as_one_that_was_not(self):
        """And every stage on the way, tokenizer to calibration, on functions whose fix is plain to see."""
        import torch

        train = self.train
        with tempfile.TemporaryDirectory() as folder:
            for name, seed in (("train", 1), ("valid", 2)):
                with open(os.path.join(folder, f"mined-{name}.jsonl"), "w") as out:
                    out.writelines(json.dumps(r) + "\n" for r in made_up(24, seed))
            common = ["--data", folder, "--work", os.path.join(folder, "w"), "--out", os.path.join(folder, "o"), "--vocabulary", "320",
                      "--hidden", "16", "--batch", "4", "--pairs", "4", "--every", "4", "--threads", "1"]  # fmt: skip
            torch.set_num_threads(1)
            args = train.arguments([*common, "--pretrain-steps", "8", "--pretrain-tokens", "1024", "--steps", "12", "--run", "whole"])
            os.makedirs(args.run)
            train.train_tokenizer(lldata.load_split(args.data, "train"), args.vocabulary).save(os.path.join(args.work, "tokenizer.json"))
            data = {name: train.load_tokens(args, name) for name in ("train", "valid")}
            config = train.configuration(args, lldata.load_tokenizer(os.path.join(args.work, "tokenizer.json")).get_vocab_size())
            np.save(os.path.join(args.work, "embeddings.npy"), train.word_vectors(data["train"], config.vocab_size, args.hidden))

            def pretrained():
                train.pretrain(args, data["train"], train.start(args, config, pretrained=False))
                return torch.load(os.path.join(args.work, "pretrained.pt"))["encoder"]

            def classified(run, steps, stop=None):
                run_args = train.arguments([*common, "--pretrain-steps", "8", "--steps", str(steps), "--run", run])
                os.makedirs(run_args.run, exist_ok=True)
                # an interruption: the look after which nothing more happens
                held, looks = train.selection, []

                def selection(*given):
                    looks.append(None)
                    if stop is not None and len(looks) > stop:
                        raise KeyboardInterrupt
                    return held(*given)

                train.selection = selection
                try:
                    train.classify(run_args, data["train"], data["valid"], train.start(run_args, config))
                except KeyboardInterrupt:
                    return None
                finally:
                    train.selection = held
                return run_args, torch.load(os.path.join(run_args.run, "best.pt")), torch.load(os.path.join(run_args.run, "stable.pt"))

            first = pretrained()
            for name in ("pretrained.pt", "pretrain-state.pt"):
                os.remove(os.path.join(args.work, name))
            save = train.save

            def save_once(path, **state):
                save(path, **state)
                raise KeyboardInterrupt

            train.save = save_once
            with self.assertRaises(KeyboardInterrupt):
                pretrained()
            train.save = save
            self.assertEqual(torch.load(os.path.join(args.work, "pretrain-state.pt"))["step"], 4)
            self.assertTrue(all(torch.equal(a, b) for a, b in zip(first.values(), pretrained().values())))

            _, whole, _ = classified("whole", 12)
            train.STOPPING.append(True)  # as a signal does
            with self.assertRaisesRegex(SystemExit, "stopped behind step 1"):
                classified("pieces", 12)
            train.STOPPING.clear()
            self.assertIsNone(classified("pieces", 12, stop=1))
            _, pieces, stable = classified("pieces", 12)
            self.assertEqual(whole["step"], pieces["step"])
            self.assertTrue(all(torch.equal(whole["model"][k], pieces["model"][k]) for k in whole["model"]))
            self.assertEqual(stable["step"], 8)
            # a longer run goes on from before the descent, and ends as if it had been meant to be long
            classified("long", 20)
            run_args, _, _ = classified("pieces", 20)
            states = [torch.load(os.path.join(folder, "w", run, "stable.pt"))["model"] for run in ("long", "pieces")]
            self.assertTrue(all(torch.equal(states[0][k], states[1][k]) for k in states[0]))
            figures = train.calibrate(run_args, data["valid"], train.classify(run_args, data["train"], data["valid"], train.start(run_args, config)))
            self.assertLessEqual(figures["benign_flagged"], 0.1)
            self.assertLess(figures["calibration_error"], 0.2)


if __name__ == "__main__":
    unittest.main()
