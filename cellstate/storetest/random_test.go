package storetest_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/cellstate/storetest"
)

func TestRandomHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { storetest.Random(t, memstore.New()) })
}
