// Package knobstest has settings of every kind, to be listed in tests.
package knobstest

import (
	"time"

	"github.com/pointsman/pointsman/internal/kit/conf"
)

// Config has settings of every kind.
type Config struct {
	// Wait is how long to wait. Default 2 s.
	Wait conf.Duration `yaml:"wait"`
	// Name on the page,
	// which may be long. Default none.
	Name string
	// User and Password, if asked for.
	User     string      `yaml:"user"`
	Password conf.Secret `yaml:"password"`
	// Flag turns it on.
	Flag *bool `yaml:"flag"`
	// Codes that count.
	Codes []int `yaml:"codes"`
	// Labels are told.
	Labels map[string]string `yaml:"labels"`
	// Items of the list.
	Items []Item `yaml:"items"`
	// Part is on when it is set.
	Part Part `yaml:"part"`
	// Folded is elsewhere.
	Folded Folded `yaml:"folded"`
	// Inlined is elsewhere.
	Inlined Folded `yaml:",inline"`
	// Not is not read.
	Not int `yaml:"-"`
}

// Item is one of a list.
type Item struct {
	// Port of the item.
	Port int `yaml:"port"`
	// Part of the item.
	Part Part `yaml:"part"`
}

// Part is a section.
type Part struct {
	// Share of the whole.
	Share float64 `yaml:"share"`
}

// Folded is listed elsewhere.
type Folded struct {
	// Inner is a number.
	Inner int `yaml:"inner"`
}

// Undescribed has a setting without a comment.
type Undescribed struct {
	Wait time.Duration `yaml:"wait"`
}

// Defaults returns a Config with defaults.
func Defaults() Config {
	return Config{Wait: conf.Duration(2 * time.Second), Codes: []int{500, 502}}
}
