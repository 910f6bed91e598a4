package ml_test

import (
	"testing"

	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/ml"
	"github.com/ohmcell/ohm/schedulers/place/placetest"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

func TestScenarios(t *testing.T) {
	placetest.Run(t, func() schedulers.Scheduler { return ml.New() })
}

func TestConformance(t *testing.T) { schedtest.Conformance(t, ml.New(), "ml") }
