# Everything that .ci/run does is a target here. TESTING.md says what each is for.
GO       ?= go
TOOL      = $(GO) tool -modfile=tools.mod
PORTABLE  = ./settle ./entry ./journal ./linelog
MODULES   = bench examples/loggers
FULL      = TIDEMARK_FULL=1 $(GO) test -count=1
FUZZTIME ?= 30s
FUZZALL  ?= 1h

.PHONY: all build test benchtest vet lint fmt race cross fuzz long crash demo bench slowfs vuln ci
all: build vet lint test

build: ; CGO_ENABLED=0 $(GO) build -o bin/ ./cmd/tidemark
demo: ; $(GO) run ./cmd/tidemark demo
test: ; $(GO) test ./...
	$(MAKE) -s benchtest
benchtest:
	for m in $(MODULES); do (cd $$m && $(GO) test ./...) || exit 1; done
vet:
	$(GO) vet ./...
	for m in $(MODULES); do (cd $$m && $(GO) vet ./...) || exit 1; done
lint: ; $(TOOL) golangci-lint run ./...
fmt: ; $(TOOL) gofumpt -l -w .
vuln: ; $(TOOL) govulncheck ./...
race: ; $(GO) test -race -short -shuffle=on $(RACEFLAGS) $$($(GO) list ./... | grep -v /internal/compat)
cross:
	for os in darwin freebsd windows; do echo "$$os"; GOOS=$$os $(GO) build $(PORTABLE) || exit 1; done
fuzz: ; .ci/fuzz $(FUZZTIME) $(FUZZALL)
long:
	TIDEMARK_SEED=1 TIDEMARK_SEEDS=400 $(FULL) -run 'TestQuery|StressRepair|StressQuery' ./internal/compat ./journal
	$(FULL) ./journal ./linelog ./internal/remote ./examples/install
	TIDEMARK_SEEDS=40 $(FULL) ./internal/faults
	$(FULL) -run "IdleDaemon|Killed" ./internal/daemon
crash: ; .ci/crash
bench: build
	$(GO) build -o bin/ ./internal/slowfs/cmd/slowfs
	cd bench && $(GO) run . -tidemark ../bin/tidemark -slowfs ../bin/slowfs $(BENCH)
slowfs: ; $(GO) run ./internal/slowfs/cmd/slowfs $(SLOWFS)
ci: ; .ci/run
