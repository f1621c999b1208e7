package main

import (
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/adhocore/gronx"
	robfig "github.com/robfig/cron/v3"

	"github.com/coppice-dev/coppice/internal/cron"
	"github.com/coppice-dev/coppice/internal/order"
)

// seldom is the due time of the waiting orders.
const seldom = "0 0 1 1 *"

// sim is an engine in a time of its own.
type sim struct {
	e     *order.Engine
	now   order.Now
	fired int
}

func engine(n int, expr ...string) (*sim, error) {
	var all []*order.Order
	for i := range n {
		text := seldom
		if i < len(expr) {
			text = expr[i]
		}
		schedule, err := cron.Parse(text, time.UTC)
		if err != nil {
			return nil, err
		}
		all = append(all, &order.Order{Name: fmt.Sprint("o", i), Command: []string{"true"},
			Gates: []order.Gate{{Kind: order.Cron, Schedule: schedule}}})
	}
	s := &sim{now: order.Now{Wall: time.Date(2024, 1, 1, 0, 0, 30, 0, time.UTC), Up: time.Hour, Boot: "one"}}
	s.e = order.New(all, nil, 0, s.now)
	for s.e.Wait(s.now, time.Hour) == 0 {
		s.step()
	}
	return s, nil
}

// step decides once; what is fired has ended at once.
func (s *sim) step() {
	for _, a := range s.e.Step(s.now) {
		if a.Do == order.Fire {
			s.fired++
			s.e.Ended(a.Order.Name)
		}
	}
}

func (s *sim) pass(d time.Duration) { s.now.Wall, s.now.Up = s.now.Wall.Add(d), s.now.Up+d }

// engineOrders measures the decisions; what follows from them is the store's, and the kernel's.
func engineOrders(n int, d time.Duration) (map[string]float64, error) {
	var failed error
	rest, err := engine(n)
	if err != nil {
		return nil, err
	}
	m := map[string]float64{"rest_us": float64(each(d, func() error {
		rest.pass(time.Microsecond)
		rest.step()
		return nil
	}, &failed)) / 1000}
	one, err := engine(n, "* * * * * *")
	if err != nil {
		return nil, err
	}
	m["fire_us"] = float64(each(d, func() error {
		before := one.fired
		one.pass(one.e.Wait(one.now, time.Minute))
		for one.step(); one.e.Wait(one.now, time.Minute) == 0; {
			one.step()
		}
		if one.fired != before+1 {
			return fmt.Errorf("%d fired, expected 1", one.fired-before)
		}
		return nil
	}, &failed)) / 1000
	var longest []time.Duration // step of each time that all are due
	for end := time.Now().Add(d); len(longest) < 3 || time.Now().Before(end); {
		rest.fired = 0
		longest = append(longest, 0)
		rest.pass(rest.e.Wait(rest.now, 400*24*time.Hour))
		for rest.fired < n {
			begin := processor() // what others compute meanwhile is not its own
			rest.step()
			longest[len(longest)-1] = max(longest[len(longest)-1], processor()-begin)
		}
		for rest.e.Wait(rest.now, time.Minute) == 0 {
			rest.step()
		}
	}
	slices.Sort(longest)
	m["longest_us"] = float64(longest[len(longest)/2].Nanoseconds()) / 1000
	return m, failed
}

// often is a schedule that is due every few milliseconds: there is no expression for that.
type often time.Duration

func (o often) Next(t time.Time) time.Time { return t.Add(time.Duration(o)) }

// robfigOrders measures what the process computes for each firing, in real time:
// its scheduler cannot be given another one. It sleeps between two firings.
func robfigOrders(n int, d time.Duration) (map[string]float64, error) {
	c := robfig.New()
	for range n - 1 {
		if _, err := c.AddFunc(seldom, func() {}); err != nil {
			return nil, err
		}
	}
	var fired atomic.Int64
	c.Schedule(often(5*time.Millisecond), robfig.FuncJob(func() { fired.Add(1) }))
	c.Start()
	defer c.Stop()
	for fired.Load() < 5 {
		time.Sleep(time.Millisecond)
	}
	runtime.GC()
	before, began := fired.Load(), processor()
	time.Sleep(4 * d)
	count := fired.Load() - before
	if count == 0 {
		return nil, fmt.Errorf("nothing was fired within %v", 4*d)
	}
	return map[string]float64{"fire_us": float64((processor() - began).Nanoseconds()) / 1000 / float64(count)}, nil
}

// processor returns the processor time of this process.
func processor() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// gronxOrders measures a tick: all expressions are asked whether they are due, as its tasker does.
func gronxOrders(n int, d time.Duration) (map[string]float64, error) {
	var failed error
	g := gronx.New()
	at := time.Date(2024, 6, 1, 0, 0, 0, 0, time.UTC)
	tick := func(first string) func() error {
		return func() error {
			due := 0
			for i := range n {
				expr := seldom
				if i == 0 {
					expr = first
				}
				ok, err := g.IsDue(expr, at)
				if err != nil {
					return err
				}
				if ok {
					due++
				}
			}
			if (due == 1) != (first != seldom) {
				return fmt.Errorf("%d are due", due)
			}
			return nil
		}
	}
	m := map[string]float64{"rest_us": float64(each(d, tick(seldom), &failed)) / 1000}
	m["fire_us"] = float64(each(d, tick("* * * * *"), &failed)) / 1000
	return m, failed
}
