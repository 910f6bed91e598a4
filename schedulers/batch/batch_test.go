package batch_test

import (
	"testing"

	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/place/placetest"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

func TestScenarios(t *testing.T) {
	placetest.Run(t, func() schedulers.Scheduler { return batch.New() })
}

func TestConformance(t *testing.T) { schedtest.Conformance(t, batch.New(), "batch") }
