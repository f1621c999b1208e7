package store

import (
	"sync"
	"time"
)

// Writes tells what this process has written to a store. What others write is not in it, nor are leases.
type Writes struct {
	Transactions uint64 // calls of Apply with ops that were done
	Records      uint64 // that they have put, appended or deleted
	Bytes        uint64 // of the keys and values of these
	// PerSecond is the mean of the transactions in the last minute.
	PerSecond float64
	// AtOnce is the most calls of Apply with ops that may be under way at the same time; 0 if there is no limit.
	AtOnce int
}

// WritesOf returns what this process has written to a store; nothing if the store does not count.
func WritesOf(s Store) Writes {
	if s, ok := s.(interface{ Writes() Writes }); ok {
		return s.Writes()
	}
	return Writes{}
}

// meterTime is the time over which Writes.PerSecond is a mean, in seconds.
const meterTime = 60

// Meter counts the writes of a store. The zero Meter has counted none.
type Meter struct {
	AtOnce int // see Writes

	mu    sync.Mutex
	begun time.Time // of the first second
	total Writes
	each  [meterTime]uint64 // transactions in each of the last seconds, by their numbers
	last  int64             // the number of the last second in each
}

// Count counts an Apply that was done.
func (m *Meter) Count(ops []Op) {
	if len(ops) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance()
	m.each[m.last%meterTime]++
	m.total.Transactions++
	m.total.Records += uint64(len(ops))
	for _, op := range ops {
		m.total.Bytes += uint64(len(op.Key) + len(op.Value))
	}
}

// Writes returns what was counted.
func (m *Meter) Writes() Writes {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance()
	w, n := m.total, uint64(0)
	w.AtOnce = m.AtOnce
	for _, in := range m.each {
		n += in
	}
	w.PerSecond = float64(n) / meterTime
	return w
}

// advance forgets the seconds that are over. It needs mu.
func (m *Meter) advance() {
	if m.begun.IsZero() {
		m.begun = time.Now()
	}
	now := int64(time.Since(m.begun) / time.Second)
	for second := max(m.last, now-meterTime) + 1; second <= now; second++ {
		m.each[second%meterTime] = 0
	}
	m.last = now
}
