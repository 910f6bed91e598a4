package service_test

import (
	"testing"

	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/place/placetest"
	"github.com/ohmcell/ohm/schedulers/schedtest"
	"github.com/ohmcell/ohm/schedulers/service"
)

func TestScenarios(t *testing.T) {
	placetest.Run(t, func() schedulers.Scheduler { return service.New() })
}

func TestConformance(t *testing.T) { schedtest.Conformance(t, service.New(), "service") }
