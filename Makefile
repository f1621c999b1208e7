# Two commands do everything: make demo, make test.

GO      ?= go
BIN     := bin/coppice
GOLANGCI    := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOTESTSUM   := gotest.tools/gotestsum@v1.13.0
# A run is the same each time: what tests draw comes from SEED. SEED=0 draws other cases.
SEED    ?= 1
export SEED
# Else each program with a race detector, so each package of tests, sleeps for a second at its end.
GORACE  ?= atexit_sleep_ms=0
export GORACE
# SQLite is C that was translated to Go. Its memory is not on Go's heap, so a race detector finds nothing there, and its
# tests take three times the processor time. Its mutexes are those of Go, which race detectors know in any case. All
# that make runs for tests has these flags, or packages would be compiled twice.
PLAIN   := -gcflags=modernc.org/sqlite/lib=-race=false
FLAGS   := $(strip $(filter-out $(PLAIN),$(shell $(GO) env GOFLAGS)) $(PLAIN))
test test-others test-drawn test-bench lint compile: export GOFLAGS := $(FLAGS)
# -p 2: process tests start many processes of their own. -parallel 8: most of them wait most of the time.
# make lint runs vet.
TEST    := -race -vet=off -p 2 -parallel 8 -timeout 15m
# Packages whose tests draw their cases, and all others. Those that take longest begin first.
DRAWING = pgregory.net/rapid\|internal/store/storetest
DRAWN   = $(sort $(patsubst %/,./%,$(dir $(shell git grep -l '"[^"]*\($(DRAWING)\)"' -- '*_test.go'))))
LONG    := ./test ./test/web ./tools/chaos ./internal/agentcli/clitest ./internal/runtime/tmux ./internal/worktree
OTHERS  = $(LONG) $(filter-out $(patsubst ./%,$(shell $(GO) list -m)/%,$(DRAWN) $(LONG)),$(shell $(GO) list ./...))
# In CI a test that fails is run once more, and the end of the run names it as one that is not certain. No
# second run after a data race, and none that draws other cases: what was drawn is replayed.
RERUN   := $(if $(CI),--rerun-fails=1 --rerun-fails-max-failures=6 --rerun-fails-abort-on-data-race)
TESTSUM = $(GO) run $(GOTESTSUM) --format pkgname-and-test-fails --hide-summary=skipped $(RERUN)
FUZZTIME ?= 30s
# Of make chaos-cluster.
ROUNDS  ?= 60
PREFIX  ?= /usr/local
TO      = $(DESTDIR)$(PREFIX)

.PHONY: demo build install test test-others test-drawn test-bench random deps compile lint bench chaos chaos-cluster fuzz cron-long test-clis midnight screenshots web-load generate clean

## demo: build coppice and watch it heal a small fleet (15 s)
demo: build
	./$(BIN) run -f examples/fleet/coppice.toml

## build: build bin/coppice
build:
	$(GO) build -o $(BIN) ./cmd/coppice

## install: coppice, its manual pages and shell completions, into PREFIX
install: build
	install -d "$(TO)/bin" "$(TO)/share/bash-completion/completions" "$(TO)/share/zsh/site-functions" "$(TO)/share/fish/vendor_completions.d"
	install -m 755 $(BIN) "$(TO)/bin/coppice"
	./$(BIN) man "$(TO)/share/man/man1"
	./$(BIN) completion bash > "$(TO)/share/bash-completion/completions/coppice"
	./$(BIN) completion zsh > "$(TO)/share/zsh/site-functions/_coppice"
	./$(BIN) completion fish > "$(TO)/share/fish/vendor_completions.d/coppice.fish"

## test: install what the tests need and run all of them
test:
	@$(MAKE) --no-print-directory -j2 deps lint # downloads are waited for, lint is not
	$(GO) build -race ./... # lint has compiled it all; this links the programs
	@$(MAKE) --no-print-directory -j3 test-others test-drawn test-bench

test-others:
	$(TESTSUM) --packages="$(OTHERS)" -- $(TEST)

test-drawn:
	$(TESTSUM) --packages="$(DRAWN)" -- $(TEST) -args -rapid.seed=$(SEED)

test-bench:
	cd bench && $(GO) vet ./... && $(GO) test -vet=off ./...

## deps: the programs that the tests run against the real thing
deps:
	@sh tools/deps.sh

# Packages and tests, as they are tested: lint reads what was compiled, and needs no second build without -race. The
# compiler needs a sixth less time when it collects garbage more rarely.
compile:
	GOGC=400 $(GO) list -race -export -deps -test ./... >/dev/null

## lint: gofmt, lines of at most 120 columns, and what .golangci.yml enables
lint: compile
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "not gofmt-ed:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	@git ls-files '*.go' | grep -v _test.go | xargs $(GO) run ./tools/longlines
	GOGC=400 $(GO) run -exec "env GOGC=100 'GOFLAGS=$(FLAGS) -race'" $(GOLANGCI) run ./...

## bench: measure next to other libraries and Erlang/OTP (half an hour)
bench:
	cd bench && $(GO) run ./cmd/bench -reps 3

## chaos: kill agents, shims, a Sage program and the daemon at random, 100 times of 1,000 agents that share shims, of 200 that do not, and of 100 that are those of the program; 1000 times while 8 agents write beliefs; the daemon 100 times while orders run 1000 times; and all of them 100 times while 34 tasks go through a pipeline
chaos: build
	$(GO) run ./tools/chaos -agents 1000 -per-shim 32
	$(GO) run ./tools/chaos -agents 200 -per-shim 1
	$(GO) run ./tools/chaos -agents 20 -crashing 4 -program 100
	$(GO) run ./tools/chaos -beliefs -agents 8 -rounds 500 -per-shim 1
	$(GO) run ./tools/chaos -beliefs -agents 8 -rounds 500 -per-shim 32
	$(GO) run ./tools/chaos -orders -rounds 100 -runs 1000
	$(GO) run ./tools/chaos -pipeline -rounds 100

## chaos-cluster: kill, stop, pause and cut off the nodes of a fleet of 300 agents, and the members of its etcd, at random, ROUNDS times; SEED draws another order. Best as root, which has a network for each (15 minutes)
chaos-cluster: build
	$(GO) run ./tools/chaos -cluster -agents 300 -rounds $(ROUNDS) -seed $(SEED)

## random: draw other cases than make test does, and twenty times as many
random:
	SEED=0 $(GO) test -timeout 60m $(DRAWN) -args -rapid.checks=2000

## fuzz: let every fuzz test run for FUZZTIME
fuzz:
	@for pkg in $$($(GO) list ./...); do \
		for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
			echo "== $$pkg $$f"; \
			$(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
		done; \
	done

## cron-long: cron schedules held against a walk through every minute of 55 years of many time zones.
cron-long:
	$(GO) test ./internal/cron -run TestWalk -cron.long -v -timeout 60m

## test-clis: run real command lines of language models in every way that a server can fail (15 minutes)
test-clis: deps
	$(GO) test ./internal/agentcli/clitest -clis.long -v -parallel 12 -timeout 60m

## midnight: use up the quota of 100 agents in the middle of 300 tasks (3 minutes)
midnight:
	$(GO) test ./test -run TestQuotaAtMidnight -midnight.long -v -timeout 30m

## web-load: the page of 1,000 agents, some of which restart all the time, in a browser that must not stop for 50 ms
web-load:
	$(GO) test ./test/web -count 1 -run TestManyAgents -v -args -agents 1000

## screenshots: take the pictures of the web page in the documentation
screenshots:
	$(GO) test ./test/web -count 1 -run TestScreenshots -args -screenshots ../../docs/images

## generate: write the documentation that is made from the code
generate:
	$(GO) generate ./...

clean:
	rm -rf bin
