package web

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/coppice-dev/coppice/internal/exectest"
)

// browser is the browser of all tests, which is started when the first of them needs it.
var browser struct {
	start sync.Once
	ctx   context.Context
	stop  func()
	err   error
}

// stopBrowser ends the browser.
func stopBrowser() {
	if browser.stop != nil {
		browser.stop()
	}
}

// tab is a page of a browser that shares nothing with other pages.
type tab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	problems []string
}

// newTab opens a page. When the test ends, there may have been neither an exception nor a violation of the
// Content-Security-Policy.
func newTab(t testing.TB) *tab {
	t.Helper()
	exectest.Need(t, "chromium")
	browser.start.Do(func() {
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox,
			chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(waitTime))
		allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, cancel := chromedp.NewContext(allocator)
		browser.ctx, browser.err = ctx, chromedp.Do(ctx)
		browser.stop = func() {
			chromedp.Cancel(ctx)
			cancel()
			end()
		}
	})
	if browser.err != nil {
		t.Fatal(browser.err)
	}
	ctx, cancel := chromedp.NewContext(browser.ctx, chromedp.WithNewBrowserContext())
	b := &tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, b.observe); err != nil {
		t.Fatal(err)
	}
	call(b, log.Enable, cdp.Empty{})
	call(b, runtime.Enable, cdp.Empty{})
	t.Cleanup(func() {
		if t.Failed() {
			b.screenshot(filepath.Join(os.TempDir(), strings.ReplaceAll(t.Name(), "/", "-")+".png"), true)
		}
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, p := range b.problems {
			t.Error(p)
		}
	})
	return b
}

// observe collects problems of the page.
func (b *tab) observe(event any) {
	text := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text = (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error()
	case *log.EventEntryAdded:
		if e.Entry.Source == log.EntrySourceSecurity || e.Entry.Source == log.EntrySourceViolation ||
			e.Entry.Source == log.EntrySourceJavascript {
			text = fmt.Sprintf("%s: %s (%s)", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *runtime.EventConsoleAPICalled:
		text = fmt.Sprintf("console.%s", e.Type)
	}
	if text != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.problems = append(b.problems, text)
	}
}

// perform runs an action, and returns its value.
func perform[T any](b *tab, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, waitTime)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatal(err)
	}
	return value
}

// call calls a command of the protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) {
	b.t.Helper()
	perform(b, func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, command, params) })
}

// open opens a URL.
func (b *tab) open(url string) {
	b.t.Helper()
	perform(b, chromedp.Navigate(url))
}

// signIn opens a link, and waits for the page that it leads to.
func (b *tab) signIn(s *site) {
	b.t.Helper()
	b.open(s.link)
	b.await("location.pathname === '/'")
}

// live opens a page, and waits until it is kept up to date.
func (b *tab) live(url string) {
	b.t.Helper()
	b.open(url)
	b.await("document.body.dataset.connected === 'yes'")
}

// await waits until an expression is true.
func (b *tab) await(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, waitTime)
	defer cancel()
	for {
		_, err := chromedp.Run(ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(0)))
		if _, ok := errors.AsType[*cdproto.Error](err); ok && ctx.Err() == nil {
			continue // the page has given way to another one
		}
		if err != nil {
			b.t.Fatalf("%s: %v\n%s", expression, err, b.text("body"))
		}
		return
	}
}

// awaitText waits until the page shows a text. It works without scripts, too.
func (b *tab) awaitText(text string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, waitTime)
	defer cancel()
	for shown := ""; !strings.Contains(shown, text); {
		var err error
		if shown, err = chromedp.Run(ctx, chromedp.Text(chromedp.CSS("body"))); ctx.Err() != nil {
			b.t.Fatalf("%q did not come: %v\n%s", text, err, shown)
		}
	}
}

// eval returns the value of an expression.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	return perform(b, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// text returns the text of an element.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))
}

// size sets the size of the page.
func (b *tab) size(width, height int64) {
	b.t.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600,
	})
}

// dark chooses the dark or the light scheme.
func (b *tab) dark(on bool) {
	b.t.Helper()
	value := "light"
	if on {
		value = "dark"
	}
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}},
	})
}

// screenshot writes a picture of the whole page, or of what fits the window.
func (b *tab) screenshot(path string, whole bool) {
	take := chromedp.CaptureScreenshot()
	if whole {
		take = chromedp.FullScreenshot(100)
	}
	ctx, cancel := context.WithTimeout(b.ctx, waitTime)
	defer cancel()
	picture, err := chromedp.Run(ctx, take)
	if err == nil && os.WriteFile(path, picture, 0o644) == nil {
		b.t.Logf("the page: %s", path)
	}
}

// accessible checks the page with axe.
func (b *tab) accessible() {
	b.t.Helper()
	packages := exectest.Packages(b.t, "../../.cache/axe")
	axe, err := os.ReadFile(filepath.Join(packages, "node_modules/axe-core/axe.min.js"))
	if err != nil {
		b.t.Fatal(err)
	}
	eval[bool](b, string(axe)+"; true")
	found := eval[[]string](b, `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(v =>
		v.id + ": " + v.help + ": " + v.nodes.map(n => n.html.slice(0, 200)).join(" | ")))`)
	if len(found) > 0 {
		b.t.Errorf("%s: %s", eval[string](b, "location.href"), strings.Join(found, "\n"))
	}
}
