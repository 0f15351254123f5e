// A sarama consumer that does as told on stdin: close.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

type handler struct{}

func (handler) Setup(session sarama.ConsumerGroupSession) error {
	fmt.Println("assigned", session.Claims())
	return nil
}

func (handler) Cleanup(session sarama.ConsumerGroupSession) error {
	fmt.Println("revoked", session.Claims())
	return nil
}

func (handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
	}
	return nil
}

func main() {
	settings := map[string]string{}
	for _, argument := range os.Args[1:] {
		key, value, _ := strings.Cut(argument, "=")
		settings[key] = value
	}
	file, err := os.OpenFile(settings["log"], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	sarama.Logger = log.New(file, "[sarama] ", log.LstdFlags|log.Lmicroseconds|log.LUTC)
	config := sarama.NewConfig()
	config.ClientID = settings["client"]
	config.Version = sarama.V2_8_0_0
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.Session.Timeout = 6 * time.Second
	config.Consumer.Group.Heartbeat.Interval = time.Second
	config.Metadata.RefreshFrequency = 3 * time.Second
	group, err := sarama.NewConsumerGroup(strings.Split(settings["bootstrap"], ","), settings["group"], config)
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			err := group.Consume(context.Background(), []string{settings["topic"]}, handler{})
			if errors.Is(err, sarama.ErrClosedConsumerGroup) {
				return
			}
		}
	}()
	fmt.Println("started")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if lines.Text() == "close" {
			_ = group.Close()
			fmt.Println("done close")
			return
		}
		fmt.Println("done", lines.Text())
	}
}
