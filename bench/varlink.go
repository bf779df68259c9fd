package main

import (
	"bufio"
	"net"
)

// varlink sends one call and returns its one answer.
func varlink(socket, call string) (string, error) {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }() // answered or failed
	if _, err := c.Write(append([]byte(call), 0)); err != nil {
		return "", err
	}
	return bufio.NewReader(c).ReadString(0)
}
