package main

import (
	"bytes"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

const second = int64(time.Second)

var origin = time.Now()

// nowNs never reads 0.
func nowNs() int64 {
	return int64(time.Since(origin)) + 1
}

// pin pins the calling goroutine: from the last core down, as the other subjects' producers. Where
// there are more than cores the runtime's scheduler, which has a place for each core, is left alone.
func pin(number, threads int) {
	cores := runtime.NumCPU()
	if threads > cores {
		return
	}
	runtime.LockOSThread()
	var mask [16]uint64
	core := cores - 1 - number%cores
	mask[core/64%len(mask)] = 1 << (core % 64)
	// A thread that is not pinned is measured all the same.
	syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)))
}

// cpuSeconds is the CPU time of all threads so far.
func cpuSeconds() float64 {
	const process = 2
	var time syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, process, uintptr(unsafe.Pointer(&time)), 0)
	return float64(time.Nano()) / 1e9
}

// switches counts the voluntary context switches of all threads but the main one.
func switches() float64 {
	main := strconv.Itoa(os.Getpid())
	sum := 0.0
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		if task.Name() != main {
			sum += field("/proc/self/task/"+task.Name()+"/status", "voluntary_ctxt_switches:")
		}
	}
	return sum
}

// field is a number of a file that has a name before each; 0 if there is none.
func field(file, name string) float64 {
	text, _ := os.ReadFile(file)
	for _, line := range bytes.Split(text, []byte("\n")) {
		if rest, found := strings.CutPrefix(string(line), name); found {
			number, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return number
		}
	}
	return 0
}

func residentBytes() float64 {
	return 1024 * field("/proc/self/status", "VmRSS:")
}

// trimmedBytes is resident memory after a collection, without what the runtime merely keeps.
func trimmedBytes() float64 {
	debug.FreeOSMemory()
	return residentBytes()
}
