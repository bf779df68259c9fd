package entry_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/tidemark-log/tidemark/entry"
)

// typical is an entry of 22 fields and about 900 bytes, as journald stores for
// a service.
func typical(i int) entry.Entry {
	e := entry.Entry{
		Realtime: 1767571200000000 + uint64(i)*1000, Monotonic: uint64(i) * 1000, Seqnum: uint64(i),
		BootID: entry.ID{1, 2, 3}, SeqnumID: entry.ID{4, 5, 6}, XorHash: 0xd0ef89f6b83c2c02,
	}
	add := func(format string, args ...any) {
		e.Fields = append(e.Fields, fmt.Appendf(nil, format, args...))
	}
	add("PRIORITY=%d", i%8)
	add("SYSLOG_FACILITY=3")
	add("SYSLOG_IDENTIFIER=checkout")
	add("MESSAGE=connection %d from 10.0.%d.%d: request timeout, retry with backend upstream cache miss", i, i>>8&255, i&255)
	add("CODE_FILE=src/checkout/server.c")
	add("CODE_LINE=%d", i%1000)
	add("_TRANSPORT=stdout")
	add("_PID=%d", 1000+i%50)
	add("_UID=1000")
	add("_GID=1000")
	add("_COMM=checkout")
	add("_EXE=/opt/app/bin/checkout")
	add("_CMDLINE=/opt/app/bin/checkout --config /etc/app/checkout.toml --listen :8000")
	add("_CAP_EFFECTIVE=0")
	if i%20 == 0 {
		add("_SELINUX_CONTEXT=unconfined\n")
	}
	add("_SYSTEMD_CGROUP=/system.slice/checkout-3.service")
	add("_SYSTEMD_UNIT=checkout-3.service")
	add("_SYSTEMD_SLICE=system.slice")
	add("_SYSTEMD_INVOCATION_ID=f8335c9dc2c74a6e8081fb88dcbbd7ff")
	add("_MACHINE_ID=3d1219c7c4c5404aaa1f6d2a48adfda4")
	add("_HOSTNAME=node-07.fra.example.net")
	add("_RUNTIME_SCOPE=system")
	return e
}

func BenchmarkExportReader(b *testing.B) {
	var stream []byte
	for i := range 20000 {
		e := typical(i)
		stream = entry.AppendExport(stream, &e)
	}
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		r := entry.NewExportReader(bytes.NewReader(stream), entry.ExportOptions{})
		n := 0
		for {
			if _, err := r.Next(); err != nil {
				break
			}
			n++
		}
		if n != 20000 {
			b.Fatal(n)
		}
	}
}

func BenchmarkNativeDecoder(b *testing.B) {
	e := typical(1)
	var fields []entry.Field
	for _, f := range e.Fields {
		fields = append(fields, bytes.TrimPrefix(f, []byte("_")))
	}
	datagram := entry.AppendNative(nil, fields[:20])
	d := entry.NativeDecoder{Spare: 24}
	b.SetBytes(int64(len(datagram)))
	b.ReportAllocs()
	for b.Loop() {
		if len(d.Decode(datagram)[0].Fields) != 20 {
			b.Fatal("fields lost")
		}
	}
}

func BenchmarkAppendExport(b *testing.B) { benchmarkAppend(b, entry.AppendExport) }

func BenchmarkAppendJSON(b *testing.B) {
	benchmarkAppend(b, func(b []byte, e *entry.Entry) []byte { return entry.AppendJSON(b, e, entry.JSONOptions{}) })
}

func benchmarkAppend(b *testing.B, f func([]byte, *entry.Entry) []byte) {
	e := typical(1)
	out := f(nil, &e)
	b.SetBytes(int64(len(out)))
	b.ReportAllocs()
	for b.Loop() {
		out = f(out[:0], &e)
	}
}

func BenchmarkJSONDecoder(b *testing.B) {
	line := []byte(`{"time":"2026-11-30T10:00:00Z","level":"info","msg":"request done","http":{"method":"GET","path":"/api/v1/items","status":200},"duration_ms":12.5,"tags":["a","b"],"user":"x\ty"}`)
	var d entry.JSONDecoder
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := d.Decode(line); err != nil {
			b.Fatal(err)
		}
	}
}
