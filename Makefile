# `make help` lists the targets. Everything stays inside this folder: .linelens-env, .tools and target.
SHELL := bash
MAKEFLAGS += --no-print-directory

# ONNX Runtime is looked for beside target/, so the build must not go elsewhere.
export CARGO_TARGET_DIR := target

LINELENS := target/release/linelens
DEMO := examples/records.c:42

.DEFAULT_GOAL := help
.PHONY: help demo setup build fmt lint test eval-default clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

demo: setup build ## build linelens and explain a function of examples/
	$(LINELENS) explain $(DEMO) --color $(if $(NO_COLOR),never,always)

setup: .linelens-env/.stamp ## install ONNX Runtime into .linelens-env

.linelens-env/.stamp: scripts/requirements.txt scripts/make-env.sh
	scripts/make-env.sh .linelens-env scripts/requirements.txt

build: ## build target/release/linelens
	cargo build --release --locked

fmt: ## format the code
	cargo fmt

lint: ## check formatting and run clippy
	cargo fmt --check
	cargo clippy --all-targets --locked -- -D warnings

test: setup ## run every check: format, lints, tests, dependencies, editors
	scripts/test.sh

eval-default: setup build ## DATA=FOLDER: the figures of the built-in detector's model card (about an hour)
	models/train/eval-default.sh $(DATA)

clean: ## remove everything that was built or installed here
	rm -rf target .linelens-env .tools editors/vscode/node_modules editors/vscode/dist
