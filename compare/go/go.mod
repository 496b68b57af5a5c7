module timers

go 1.23
