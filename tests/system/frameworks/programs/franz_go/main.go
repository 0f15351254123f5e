// A franz-go consumer that logs through slog: SIGTERM closes it, a record of its name blocks it.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kslog"
	"github.com/twmb/franz-go/plugin/kzap"
	"go.uber.org/zap"
)

// handle blocks as slow processing does, if the record names this member: "NAME UNTIL" (ms).
func handle(record *kgo.Record, member string) {
	var name string
	var until int64
	if _, err := fmt.Sscan(string(record.Value), &name, &until); err == nil && name == member {
		time.Sleep(time.Until(time.UnixMilli(until)))
	}
}

func main() {
	if os.Getenv("LOG_FORMAT") == "zap" || os.Getenv("LOG_FORMAT") == "zap-console" {
		zapped, err := zap.NewProduction()
		if os.Getenv("LOG_FORMAT") == "zap-console" {
			zapped, err = zap.NewDevelopment()
		}
		if err != nil {
			panic(err)
		}
		consume(kzap.New(zapped))
		return
	}
	handler := slog.Handler(slog.NewTextHandler(os.Stderr, nil))
	if os.Getenv("LOG_FORMAT") == "json" {
		handler = slog.NewJSONHandler(os.Stderr, nil)
	}
	logger := slog.New(handler)
	if os.Getenv("LOG_FORMAT") == "" {
		logger = slog.Default()
	}
	consume(kslog.New(logger))
}

func consume(logger kgo.Logger) {
	member := os.Getenv("MEMBER")
	client, err := kgo.NewClient(
		kgo.SeedBrokers(os.Getenv("BOOTSTRAP")), kgo.ClientID(member),
		kgo.ConsumerGroup(os.Getenv("GROUP")), kgo.ConsumeTopics(os.Getenv("TOPIC")),
		kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(time.Second),
		kgo.BlockRebalanceOnPoll(), kgo.RebalanceTimeout(6*time.Second),
		kgo.WithLogger(logger),
	)
	if err != nil {
		panic(err)
	}
	stop, forget := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer forget()
	for stop.Err() == nil {
		fetches := client.PollFetches(stop)
		fetches.EachRecord(func(record *kgo.Record) { handle(record, member) })
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
}
