package segment

import (
	"os"
	"sync"
	"time"
)

// pipeSize is what is read at once: all that a pipe holds.
const pipeSize = 64 << 10

// lastWords is how long a stream may still be read after its task has ended, where somebody
// holds its other end open.
const lastWords = 5 * time.Second

// Copy writes what comes from the pipes, one for each writer, until all have ended. over
// says that the task has: then nothing is waited for that has not been written yet. The
// pipes and the writers are closed.
func Copy(pipes []*os.File, to []*Writer, over <-chan struct{}) {
	var copying sync.WaitGroup
	for i, pipe := range pipes {
		copying.Go(func() {
			defer to[i].Close()
			defer pipe.Close()
			copyOne(pipe, to[i])
		})
	}
	done := make(chan struct{})
	go func() { copying.Wait(); close(done) }()
	select {
	case <-done:
		return
	case <-over:
	}
	for _, pipe := range pipes {
		_ = pipe.SetReadDeadline(time.Now().Add(lastWords)) // it may be closed
	}
	<-done
}

func copyOne(pipe *os.File, to *Writer) {
	buf := make([]byte, pipeSize)
	for {
		n, err := pipe.Read(buf)
		if n > 0 {
			to.Write(buf[:n])
		}
		if err != nil {
			return
		}
	}
}
