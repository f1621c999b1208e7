package eval

import (
	"context"
	"crypto/rand"
	"maps"
	"sync"

	"github.com/coppice-dev/coppice/internal/belief"
	"github.com/coppice-dev/coppice/internal/spec"
	"github.com/coppice-dev/coppice/internal/value"
)

// Beliefs keep what agents must not forget. Agents are named by their path.
type Beliefs interface {
	// Begin opens the beliefs of an incarnation, and closes them for those
	// before it. Names are the persistent beliefs that it has.
	Begin(ctx context.Context, path string, incarnation uint64, names []string) (Kept, error)
}

// Kept are the beliefs of one incarnation.
type Kept interface {
	// Values are what was kept, as JSON; what was not is missing.
	Values() map[string]string
	// Set keeps values, all of them or none, and returns when they are durable.
	Set(ctx context.Context, values map[string]string) error
	// End says that the incarnation is over.
	End()
}

// NewMemory returns Beliefs that last as long as they are held.
func NewMemory() Beliefs { return &memory{of: map[string]map[string]string{}} }

type memory struct {
	mu sync.Mutex
	of map[string]map[string]string
}

func (m *memory) Begin(_ context.Context, path string, _ uint64, _ []string) (Kept, error) {
	return &remembered{m, path}, nil
}

type remembered struct {
	in   *memory
	path string
}

func (r *remembered) Values() map[string]string {
	r.in.mu.Lock()
	defer r.in.mu.Unlock()
	return maps.Clone(r.in.of[r.path])
}

func (r *remembered) Set(_ context.Context, values map[string]string) error {
	r.in.mu.Lock()
	defer r.in.mu.Unlock()
	if r.in.of[r.path] == nil {
		r.in.of[r.path] = map[string]string{}
	}
	maps.Copy(r.in.of[r.path], values)
	return nil
}

func (r *remembered) End() {}

// InBook returns Beliefs that are kept with those of all other agents.
func InBook(b *belief.Book) Beliefs { return book{b} }

type book struct{ *belief.Book }

func (b book) Begin(ctx context.Context, path string, incarnation uint64, names []string) (Kept, error) {
	declared := make([]spec.Belief, len(names))
	for i, name := range names {
		declared[i] = spec.Belief{Name: name, Persistent: true}
	}
	b.Declare(path, declared)
	life := belief.Life{Incarnation: incarnation, ID: rand.Text()}
	// What is wrong with single records costs their belief its value; the book
	// tells that to whoever looks at it.
	if _, err := b.Book.Begin(ctx, path, life); err != nil {
		return nil, err
	}
	k, err := Begun(ctx, b.Book, path, incarnation)
	if err != nil {
		b.Book.End(path, incarnation)
	}
	return k, err
}

// Begun returns the beliefs of an incarnation that somebody else has opened in
// the book, and closes.
func Begun(ctx context.Context, b *belief.Book, path string, incarnation uint64) (Kept, error) {
	all, err := b.Get(ctx, path, incarnation)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for _, one := range all {
		if one.From == belief.Kept {
			values[one.Name] = string(one.Value)
		}
	}
	return &page{b, path, incarnation, values}, nil
}

type page struct {
	book        *belief.Book
	path        string
	incarnation uint64
	values      map[string]string
}

func (p *page) Values() map[string]string { return p.values }

func (p *page) Set(ctx context.Context, values map[string]string) error {
	step := belief.Step{Path: p.path, By: p.incarnation, Set: value.Named{}}
	for name, text := range values {
		v, err := value.Parse([]byte(text))
		if err != nil {
			return err
		}
		step.Set[name] = v
	}
	return p.book.Apply(ctx, step)
}

func (p *page) End() { p.book.End(p.path, p.incarnation) }
