// A franz-go consumer that does as told on stdin: close, stall MS, subscribe TOPIC, enforce.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	settings := map[string]string{}
	for _, argument := range os.Args[1:] {
		key, value, _ := strings.Cut(argument, "=")
		settings[key] = value
	}
	log, err := os.OpenFile(settings["log"], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	stamp := func() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000Z07:00 ") }
	told := func(event string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			fmt.Println(event, partitions)
		}
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(settings["bootstrap"], ",")...), kgo.ClientID(settings["client"]),
		kgo.ConsumerGroup(settings["group"]), kgo.ConsumeTopics(settings["topic"]),
		kgo.WithLogger(kgo.BasicLogger(log, level(settings["level"]), stamp)),
		kgo.SessionTimeout(6 * time.Second), kgo.HeartbeatInterval(time.Second),
		kgo.MetadataMaxAge(3 * time.Second), kgo.MetadataMinAge(time.Second),
		kgo.OnPartitionsAssigned(told("assigned")), kgo.OnPartitionsRevoked(told("revoked")),
		kgo.OnPartitionsLost(told("lost")),
	}
	if settings["balancer"] != "cooperative" { // its default is cooperative
		options = append(options, kgo.Balancers(kgo.RangeBalancer()))
	}
	if settings["instance"] != "" {
		options = append(options, kgo.InstanceID(settings["instance"]))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			if client.PollFetches(context.Background()).IsClientClosed() {
				return
			}
		}
	}()
	fmt.Println("started")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		name, argument, _ := strings.Cut(lines.Text(), " ")
		switch name {
		case "subscribe":
			client.AddConsumeTopics(argument)
		case "enforce":
			client.ForceRebalance()
		case "close":
			client.Close()
		}
		fmt.Println("done", name)
		if name == "close" {
			return
		}
	}
}

func level(name string) kgo.LogLevel {
	if name == "debug" {
		return kgo.LogLevelDebug
	}
	return kgo.LogLevelInfo
}
