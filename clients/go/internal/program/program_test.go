package program

import (
	"bytes"
	"strings"
	"testing"

	"parley/rules"
)

func TestWrongUsageIsOneLineAndStatusTwo(t *testing.T) {
	t.Setenv("PARLEY_ENDPOINT", "")
	for _, arguments := range [][]string{
		{}, {"--connect", "nowhere"}, {"--nonsense"}, {"more"}, {"--interval", "0"}, {"--interval", "x"}, {"--interval"},
		{"--interval", "NaN"}, {"--interval", "1e300"},
	} {
		var said bytes.Buffer
		if status := Run("fifo", &rules.Easy{}, arguments, &said); status != 2 || strings.Count(said.String(), "\n") != 1 {
			t.Errorf("%v: status %d, %q", arguments, status, said.String())
		}
	}
}

func TestSecondsAreRead(t *testing.T) {
	for text, want := range map[string]int64{"30": 30_000_000, "0.5": 500_000, "30s": 30_000_000} {
		if got, err := microseconds(text); got != want || err != nil {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
}
