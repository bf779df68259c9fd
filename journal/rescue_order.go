package journal

import (
	"sort"

	"github.com/tidemark-log/tidemark/entry"
)

// rescued is an entry that was found.
type rescued struct {
	off, seqnum, monotonic uint64
	boot                   int // entries next to one another are of one boot if this is the same
}

// collect lists the entries that were found, with numbers and times in order. The
// order is that of the file: its writer only appends. A number that has lost a bit
// breaks it, and is told from the others as one that is not part of the longest
// sequence that grows.
func (r *rescue) collect() {
	f := r.f
	r.list = make([]rescued, 0, len(f.salvaged.index))
	var h entryHead
	var boot entry.ID
	n := 0
	for _, off := range f.salvaged.index {
		if f.readHead(off, &h) != nil {
			r.report.Lost++
			continue
		}
		if h.boot != boot {
			boot = h.boot
			n++
		}
		r.list = append(r.list, rescued{off, h.seqnum, h.monotonic, n})
	}
	r.number()
	for from := 0; from < len(r.list); {
		to := from + 1
		for to < len(r.list) && r.list[to].boot == r.list[from].boot {
			to++
		}
		r.time(r.list[from:to])
		from = to
	}
}

// number gives those entries new numbers whose own are out of order: the one
// behind that of the entry before, where it is free. Where none is, the entry
// cannot be told from a copy of its neighbour, and is left out.
func (r *rescue) number() {
	good := longestGrowing(len(r.list), true, func(i int) uint64 { return r.list[i].seqnum })
	if good == nil {
		return
	}
	kept := r.list[:0]
	last := uint64(0)
	for i := 0; i < len(r.list); {
		if good[i] {
			last = r.list[i].seqnum
			kept = append(kept, r.list[i])
			i++
			continue
		}
		k := i
		for k < len(r.list) && !good[k] {
			k++
		}
		next := ^uint64(0)
		if k < len(r.list) {
			next = r.list[k].seqnum
		}
		if i == 0 { // the first are numbered backwards from the one behind them
			last = next - min(next, uint64(k)) - 1
			if next == 0 || next <= uint64(k) {
				last = 0
			}
		}
		for ; i < k; i++ {
			if last+1 >= next {
				r.report.Lost++
				continue
			}
			last++
			x := r.list[i]
			x.seqnum = last
			kept = append(kept, x)
			r.report.Renumbered++
		}
	}
	r.list = kept
}

// time gives those entries of one boot the monotonic time of a neighbour whose
// own is out of order.
func (r *rescue) time(list []rescued) {
	good := longestGrowing(len(list), false, func(i int) uint64 { return list[i].monotonic })
	if good == nil {
		return
	}
	var last uint64
	for i, ok := range good {
		if ok {
			last = list[i].monotonic
			break
		}
	}
	for i := range list {
		if good[i] {
			last = list[i].monotonic
			continue
		}
		list[i].monotonic = last
		r.report.Retimed++
	}
}

// longestGrowing finds a longest subsequence of n values that grows, strictly or not,
// and tells which are part of it; nil if all are.
func longestGrowing(n int, strictly bool, value func(i int) uint64) []bool {
	before := func(a, b uint64) bool { return a < b || a == b && !strictly }
	i := 1
	for i < n && before(value(i-1), value(i)) {
		i++
	}
	if i >= n {
		return nil
	}
	// tails[k] is the last element of the sequence of k+1 elements that ends lowest.
	tails := make([]int32, 0, n)
	previous := make([]int32, n)
	for i := range n {
		v := value(i)
		k := sort.Search(len(tails), func(k int) bool { return !before(value(int(tails[k])), v) })
		previous[i] = -1
		if k > 0 {
			previous[i] = tails[k-1]
		}
		if k == len(tails) {
			tails = append(tails, int32(i))
		} else {
			tails[k] = int32(i)
		}
	}
	good := make([]bool, n)
	for i := tails[len(tails)-1]; i >= 0; i = previous[i] {
		good[i] = true
	}
	return good
}
