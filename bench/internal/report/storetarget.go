package report

// storeTargets hold each store to what it is made of.
func storeTargets() []target {
	var ts []target
	add := func(store string, n int, row, metric string, factor float64, atLeast bool) {
		ts = append(ts, target{row: row + ", next to " + store + " alone", scenario: "store", metric: metric,
			ours: "coppice-" + store, n: n, against: []string{"raw-" + store}, refN: n, factor: factor,
			atLeast: atLeast})
	}
	both := func(store string, n int) {
		add(store, n, "a record written on a condition, p50", "serial_p50_us", 2.5, false)
		add(store, n, "events/s, 50 of them in each write", "events_per_s", 0.5, true)
		add(store, n, "a snapshot of 10,000 records", "snapshot_ms", 2, false)
	}
	both("sqlite", 1)
	add("sqlite", 1, "records/s of 16 writers that share commits", "many_per_s", 2, true)
	add("sqlite", 1, "records/s of 16 writers, each with an event", "logged_per_s", 2, true)
	for _, n := range []int{1, 3} {
		both("etcd", n)
		add("etcd", n, "records/s of 16 writers", "many_per_s", 0.5, true)
		add("etcd", n, "from a write to a watch, p50", "watch_p50_us", 2, false)
	}
	return ts
}
