//go:build tools

// Package runc names the program that starts containers for containerd, so that one go.sum pins it.
package runc

import _ "github.com/opencontainers/runc"
