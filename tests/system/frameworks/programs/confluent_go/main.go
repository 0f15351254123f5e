// A confluent-kafka-go consumer with librdkafka's log, which it prints itself if LOGS is "channel":
// SIGTERM closes it, a record of its name blocks it.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// handle blocks as slow processing does, if the record names this member: "NAME UNTIL" (ms).
func handle(record *kafka.Message, member string) {
	var name string
	var until int64
	if _, err := fmt.Sscan(string(record.Value), &name, &until); err == nil && name == member {
		time.Sleep(time.Until(time.UnixMilli(until)))
	}
}

func main() {
	member := os.Getenv("MEMBER")
	consumer, err := kafka.NewConsumer(&kafka.ConfigMap{
		"bootstrap.servers": os.Getenv("BOOTSTRAP"), "group.id": os.Getenv("GROUP"),
		"client.id": member, "session.timeout.ms": 6000, "heartbeat.interval.ms": 1000,
		"max.poll.interval.ms": 6000, "auto.offset.reset": "earliest",
		"debug": "cgrp", "go.logs.channel.enable": os.Getenv("LOGS") == "channel",
	})
	if err != nil {
		panic(err)
	}
	if os.Getenv("LOGS") == "channel" {
		go func() {
			for event := range consumer.Logs() {
				fmt.Println(event)
			}
		}()
	}
	if err := consumer.Subscribe(os.Getenv("TOPIC"), nil); err != nil {
		panic(err)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	for len(stop) == 0 {
		if record, err := consumer.ReadMessage(200 * time.Millisecond); err == nil {
			handle(record, member)
		}
	}
	consumer.Close()
}
