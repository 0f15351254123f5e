module sarama

go 1.21
