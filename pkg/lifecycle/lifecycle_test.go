package lifecycle_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/ohmcell/ohm/pkg/lifecycle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEndsInReverse(t *testing.T) {
	var mu sync.Mutex
	var ended []string
	var up sync.WaitGroup
	part := func(name string) lifecycle.Part {
		up.Add(1)
		return lifecycle.Part{Name: name, Run: func(ctx context.Context) error {
			up.Done()
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			ended = append(ended, name)
			return nil
		}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	parts := []lifecycle.Part{part("store"), part("server"), part("agent")}
	go func() { up.Wait(); cancel() }()
	if err := lifecycle.Run(ctx, parts...); err != nil {
		t.Fatal(err)
	}
	if want := []string{"agent", "server", "store"}; !slices.Equal(ended, want) {
		t.Fatalf("ended in the order %v, want %v", ended, want)
	}
}

func TestOnePartEndsAll(t *testing.T) {
	broken := errors.New("broken")
	err := lifecycle.Run(t.Context(),
		lifecycle.Part{Name: "a", Run: func(ctx context.Context) error { <-ctx.Done(); return nil }},
		lifecycle.Part{Name: "b", Run: func(context.Context) error { return broken }},
	)
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "b: ") {
		t.Fatalf("error %v", err)
	}
	if err := lifecycle.Run(t.Context(), lifecycle.Part{Name: "c", Run: func(context.Context) error { return nil }}); err == nil {
		t.Fatal("a part that ended by itself was no error")
	}
}
