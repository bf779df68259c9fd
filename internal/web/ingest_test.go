package web

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-log/tidemark/journal"
	"github.com/tidemark-log/tidemark/settle"
)

// ingestCase is a request to /ingest, its answer and what came of it.
type ingestCase struct {
	name    string
	sink    *fakeSink // nil: one that takes everything
	least   settle.Level
	query   string
	header  map[string]string
	body    string
	status  int
	answer  string
	kept    []string
	waits   []settle.Level
	retryIn string
}

func TestIngest(t *testing.T) {
	for _, tt := range slices.Concat(takenCases(), storeCases(), refusedCases()) {
		t.Run(tt.name, tt.run)
	}
}

func (tt ingestCase) run(t *testing.T) {
	sink := tt.sink
	if sink == nil {
		sink = &fakeSink{}
	}
	cfg := config(sink)
	cfg.MaxBody, cfg.MaxLine = 200, 50
	if tt.least != 0 {
		cfg.Least = func() settle.Level { return tt.least }
	}
	r := httptest.NewRequest("POST", "http://localhost:19531/ingest"+tt.query, strings.NewReader(tt.body))
	r.Header.Set("Content-Type", "application/x-ndjson; charset=utf-8")
	for k, v := range tt.header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	New(cfg).Handler().ServeHTTP(w, r)
	if w.Code != tt.status {
		t.Errorf("status %d, want %d", w.Code, tt.status)
	}
	if diff := cmp.Diff(tt.answer+"\n", w.Body.String()); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(tt.kept, sink.last()); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(tt.waits, sink.waits); diff != "" {
		t.Errorf("waited for (-want +got):\n%s", diff)
	}
	if got := w.Header().Get("Retry-After"); got != tt.retryIn {
		t.Errorf("Retry-After %q, want %q", got, tt.retryIn)
	}
}

// takenCases are requests that succeed.
func takenCases() []ingestCase {
	return []ingestCase{
		{
			name: "lines", body: "{a}\n\n{b}\n{c}", status: 200,
			answer: `{"accepted":3,"ack":"appended"}`,
			kept:   []string{"a@192.0.2.1", "b@192.0.2.1", "c@192.0.2.1"}, waits: []settle.Level{settle.Appended},
		},
		{
			name: "dropped lines", body: "{a}\n{-}\n{-}\n", status: 200,
			answer: `{"accepted":1,"dropped":2,"ack":"appended"}`, kept: []string{"a@192.0.2.1"}, waits: []settle.Level{settle.Appended},
		},
		{name: "nothing", body: "\n \n", status: 200, answer: `{"accepted":0,"ack":"appended"}`, waits: []settle.Level{settle.Appended}},
		{
			name: "gzip", header: map[string]string{"Content-Encoding": "gzip"}, body: gz("{a}\n"), status: 200,
			answer: `{"accepted":1,"ack":"appended"}`, kept: []string{"a@192.0.2.1"}, waits: []settle.Level{settle.Appended},
		},
		{
			name: "synced", query: "?ack=synced", body: "{a}\n", status: 200,
			answer: `{"accepted":1,"ack":"synced"}`, kept: []string{"a@192.0.2.1"}, waits: []settle.Level{settle.Appended, settle.Synced},
		},
		{
			name: "policy above the request", least: settle.Synced, query: "?ack=appended", body: "{a}\n", status: 200,
			answer: `{"accepted":1,"ack":"synced"}`, kept: []string{"a@192.0.2.1"}, waits: []settle.Level{settle.Appended, settle.Synced},
		},
	}
}

// storeCases are requests that the store does not take, or not whole.
func storeCases() []ingestCase {
	full := &fakeSink{room: 1, refuse: fmt.Errorf("append: %w", journal.ErrBufferFull)}
	noSpace := &fakeSink{refuse: fmt.Errorf("append: %w", syscall.ENOSPC)}
	tooLarge := &fakeSink{room: 1, refuse: fmt.Errorf("append: %w", &journal.EntryError{Err: journal.ErrTooLarge})}
	unstorable := &fakeSink{refuse: &journal.EntryError{Field: -1, Err: journal.ErrTime}}
	unwritten := &fakeSink{waitErr: map[settle.Level]error{settle.Appended: fmt.Errorf("write: %w", syscall.ENOSPC)}}
	unsynced := &fakeSink{waitErr: map[settle.Level]error{settle.Synced: errors.New("sync: input/output error")}}
	return []ingestCase{
		{
			name: "full buffer", sink: full, body: "{a}\n{b}\n", status: 503, retryIn: "1",
			answer: `{"accepted":1,"ack":"appended","error":"line 2: the buffer is full: send again from this line on","line":2}`,
			kept:   []string{"a@192.0.2.1"}, waits: []settle.Level{settle.Appended},
		},
		{
			name: "full disk", sink: noSpace, body: "{a}\n", status: 507,
			answer: `{"accepted":0,"error":"line 1: the disk is full: send again from this line on when there is space","line":1}`,
			waits:  []settle.Level{settle.Appended},
		},
		{
			name: "failed sync is not acknowledged", sink: unsynced, query: "?ack=synced", body: "{a}\n", status: 500,
			answer: `{"accepted":1,"ack":"appended","error":"wait until synced: sync: input/output error"}`,
			kept:   []string{"a@192.0.2.1"}, waits: []settle.Level{settle.Appended, settle.Synced},
		},
		{
			name: "larger than a file", sink: tooLarge, body: "{a}\n{b}\n", status: 413,
			answer: `{"accepted":1,"ack":"appended","error":"line 2: larger than a journal file can hold: split it, or raise SystemMaxFileSize=","line":2}`,
			kept:   []string{"a@192.0.2.1"}, waits: []settle.Level{settle.Appended},
		},
		{
			name: "unstorable", sink: unstorable, body: "{a}\n", status: 400,
			answer: `{"accepted":0,"error":"line 1: time out of range","line":1}`, waits: []settle.Level{settle.Appended},
		},
		{
			name: "the disk fills while it waits", sink: unwritten, query: "?ack=synced", body: "{a}\n", status: 507,
			answer: `{"accepted":1,"ack":"accepted","error":"wait until appended: write: no space left on device: what was accepted waits in memory until there is space"}`,
			kept:   []string{"a@192.0.2.1"}, waits: []settle.Level{settle.Appended},
		},
	}
}

// refusedCases are requests that are wrong themselves.
func refusedCases() []ingestCase {
	return []ingestCase{
		{name: "replicated", query: "?ack=replicated", body: "{a}\n", status: 400, answer: `{"accepted":0,"error":"ack=replicated: no target to replicate to is configured"}`},
		{name: "unknown level", query: "?ack=soon", body: "{a}\n", status: 400, answer: `{"accepted":0,"error":"invalid ack level \"soon\": want appended or synced"}`},
		{
			name: "bad line keeps the ones before", query: "?ack=synced", body: "{a}\n\nb\n{c}\n", status: 400,
			answer: `{"accepted":1,"ack":"synced","error":"line 3: want an object","line":3}`,
			kept:   []string{"a@192.0.2.1"}, waits: []settle.Level{settle.Appended, settle.Synced},
		},
		{
			name: "form", header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, body: "{a}", status: 415,
			answer: `{"accepted":0,"error":"the body must be JSON lines: curl -H 'Content-Type: application/x-ndjson' --data-binary @FILE http://localhost:19531/ingest"}`,
		},
		{
			name: "brotli", header: map[string]string{"Content-Encoding": "br"}, body: "{a}", status: 415,
			answer: `{"accepted":0,"error":"unknown Content-Encoding: gzip -c FILE | curl -H 'Content-Type: application/x-ndjson' -H 'Content-Encoding: gzip' --data-binary @- http://localhost:19531/ingest"}`,
		},
		{name: "body over its limit", body: "{" + strings.Repeat("x", 300) + "}", status: 413, answer: `{"accepted":0,"error":"the body is longer than the limit of 200 bytes"}`},
		{
			name: "bomb", header: map[string]string{"Content-Encoding": "gzip"}, body: gz("{a}\n" + strings.Repeat("\n", 100_000)), status: 413,
			answer: `{"accepted":1,"ack":"appended","error":"the body is longer than the limit of 200 bytes"}`,
			kept:   []string{"a@192.0.2.1"}, waits: []settle.Level{settle.Appended},
		},
		{
			name: "line over its limit", body: "{a}\n{" + strings.Repeat("x", 100) + "}\n", status: 413,
			answer: `{"accepted":1,"ack":"appended","error":"line 2: longer than the limit of 50 bytes a line","line":2}`,
			kept:   []string{"a@192.0.2.1"}, waits: []settle.Level{settle.Appended},
		},
		{
			name: "cut gzip", header: map[string]string{"Content-Encoding": "gzip"}, body: gz("{a}\n")[:20], status: 400,
			answer: `{"accepted":1,"ack":"appended","error":"line 2: read the body: unexpected EOF","line":2}`,
			kept:   []string{"a@192.0.2.1"}, waits: []settle.Level{settle.Appended},
		},
	}
}
