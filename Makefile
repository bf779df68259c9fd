# Everything that .ci/run does is a target here. TESTING.md says what each is for.
GO       ?= go
TOOL      = $(GO) tool -modfile=tools.mod
PORTABLE  = ./settle ./entry ./journal ./linelog
MODULES   = bench examples/loggers
FUZZTIME ?= 30s
FUZZALL  ?= 1h
SEEDS    ?= 2000
KILLS    ?= 1000
CUTS     ?= 500
WRITERS  ?= 300

.PHONY: all build test benchtest vet lint fmt race cross fuzz long crash demo bench slowfs vuln ci
all: build vet lint test

build:
	CGO_ENABLED=0 $(GO) build -o bin/ ./cmd/tidemark
test:
	$(GO) test ./...
	$(MAKE) -s benchtest
benchtest:
	for m in $(MODULES); do (cd $$m && $(GO) test ./...) || exit 1; done
vet:
	$(GO) vet ./...
	for m in $(MODULES); do (cd $$m && $(GO) vet ./...) || exit 1; done
lint:
	$(TOOL) golangci-lint run ./...
fmt:
	$(TOOL) gofumpt -l -w .
race:
	$(GO) test -race -short -shuffle=on $(RACEFLAGS) $$($(GO) list ./... | grep -v /internal/compat)
cross:
	for os in darwin freebsd windows; do echo "$$os"; GOOS=$$os $(GO) build $(PORTABLE) || exit 1; done
fuzz:
	.ci/fuzz $(FUZZTIME) $(FUZZALL)
long:
	TIDEMARK_FULL=1 TIDEMARK_SEEDS=400 $(GO) test -count=1 -run 'TestQuery|StressRepair|StressQuery' ./internal/compat ./journal
	TIDEMARK_FULL=1 $(GO) test -count=1 ./journal ./linelog ./internal/remote ./examples/install
	TIDEMARK_FULL=1 TIDEMARK_SEEDS=40 $(GO) test -count=1 ./internal/faults
	TIDEMARK_FULL=1 $(GO) test -count=1 -run "IdleDaemon|Killed" ./internal/daemon
crash:
	TIDEMARK_SEEDS=$(SEEDS) $(GO) test -count=1 -timeout=60m -run 'Crash|Stress' $$($(GO) list ./... | grep -v '/internal/faults\|/linelog')
	TIDEMARK_SEEDS=$(WRITERS) $(GO) test -count=1 -timeout=180m -run 'Crash|Stress' ./linelog
	TIDEMARK_SEEDS=$(KILLS) $(GO) test -count=1 -timeout=60m -run 'CrashKill|FailingSyncs' ./internal/faults
	TIDEMARK_SEEDS=$(CUTS) $(GO) test -count=1 -timeout=60m -run CrashPowerCut ./internal/faults
demo:
	$(GO) run ./cmd/tidemark demo
bench: build
	$(GO) build -o bin/ ./internal/slowfs/cmd/slowfs
	cd bench && $(GO) run . -tidemark ../bin/tidemark -slowfs ../bin/slowfs $(BENCH)
slowfs:
	$(GO) run ./internal/slowfs/cmd/slowfs $(SLOWFS)
vuln:
	$(TOOL) govulncheck ./...
ci:
	.ci/run
