package process

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate/mirror"
	"github.com/ohmcell/ohm/pkg/lifecycle"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/ml"
	"github.com/ohmcell/ohm/schedulers/service"
	"github.com/ohmcell/ohm/schedulers/system"
)

// policies are the built-in ones, by name.
func policies() map[string]func() schedulers.Scheduler {
	return map[string]func() schedulers.Scheduler{
		"batch":   func() schedulers.Scheduler { return batch.New() },
		"service": func() schedulers.Scheduler { return service.New() },
		"ml":      func() schedulers.Scheduler { return ml.New() },
		"system":  func() schedulers.Scheduler { return system.New() },
	}
}

// Policies are the names of the built-in policies.
func Policies() []string { return []string{"batch", "service", "ml", "system"} }

// Scheduler is a scheduler process: one policy or more, each with a mirror of its own.
type Scheduler struct {
	Store    Store
	Policies []string
	Name     string // to register under; empty: each policy's own
	Instance string // empty: from the data dir
	DataDir  string // keeps the instance's name; empty: a fresh one each time
	Version  string
	Times    schedulers.Times
	// Evictions are as in schedulers.Config.
	Evictions schedulers.EvictionLimits
	// CheckEvery is the time in which the mirror compares itself with the store once; 0: never.
	CheckEvery time.Duration
	Log        *zap.Logger
}

// Run schedules until ctx ends.
func (s Scheduler) Run(ctx context.Context) error {
	ShareMachine()
	if len(s.Policies) == 0 {
		return fmt.Errorf("no policy given; there are %s", strings.Join(Policies(), ", "))
	}
	if s.Instance == "" {
		name, err := instance(s.DataDir)
		if err != nil {
			return err
		}
		s.Instance = name
	}
	var parts []lifecycle.Part
	for _, policy := range s.Policies {
		if !slices.Contains(Policies(), policy) {
			return fmt.Errorf("there is no policy %q; there are %s", policy, strings.Join(Policies(), ", "))
		}
		parts = append(parts, lifecycle.Part{Name: "scheduler " + policy, Run: func(ctx context.Context) error { return s.run(ctx, policy) }})
	}
	return lifecycle.Run(ctx, parts...)
}

func (s Scheduler) run(ctx context.Context, policy string) error {
	name := policy
	if s.Name != "" {
		name = s.Name
	}
	log := s.Log.Named("scheduler." + name)
	store, err := s.Store.Open(ctx, "scheduler-"+name+"-"+s.Instance, log)
	if err != nil {
		return err
	}
	defer store.Close()
	m := mirror.New(store, log, mirror.CheckEvery(s.CheckEvery))
	runner := schedulers.New(schedulers.Config{
		Cell: m, Store: store, Scheduler: policies()[policy](), Name: name, Instance: s.Instance,
		Policy: policy, Version: s.Version, BuiltIn: name == policy, Log: log, Times: s.Times, Evictions: s.Evictions,
	})
	return lifecycle.Run(ctx, lifecycle.Part{Name: "mirror", Run: m.Run}, lifecycle.Part{Name: "runner", Run: runner.Run})
}
