package main

import (
	"testing"

	"github.com/ohmcell/ohm/schedulers/schedtest"
)

func TestFirstFitConforms(t *testing.T) { schedtest.Conformance(t, newFirstFit()) }
