package ml_test

import (
	"testing"

	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/ml"
	"github.com/ohmcell/ohm/schedulers/place/placetest"
)

func TestScenarios(t *testing.T) {
	placetest.Run(t, func() schedulers.Scheduler { return ml.New() })
}
