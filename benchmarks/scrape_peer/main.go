// A page of client_golang, beside which the agent's own is measured.
//
// Each line on stdin is the base address of a page to be like: one series for each of its series,
// with the same name, labels and type. An empty line changes every value. Each is answered by "ok".
package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// change moves a series' value, by no more than its type allows.
type change func(by float64)

func main() {
	registry := prometheus.NewRegistry()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	go func() { check(http.Serve(listener, handler)) }()
	fmt.Println(listener.Addr())
	var changes []change
	lines := bufio.NewScanner(os.Stdin)
	for step := 1.0; lines.Scan(); step++ {
		if lines.Text() != "" {
			changes = like(lines.Text(), registry)
		}
		for number, move := range changes {
			move(step + float64(number%7)/8)
		}
		fmt.Println("ok")
	}
}

func like(address string, registry *prometheus.Registry) []change {
	response, err := http.Get(address)
	check(err)
	page, err := io.ReadAll(response.Body)
	check(err)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(page)))
	check(err)
	var changes []change
	for _, family := range families {
		names := labelNames(family)
		switch family.GetType() {
		case dto.MetricType_COUNTER:
			made := prometheus.NewCounterVec(
				prometheus.CounterOpts{Name: family.GetName(), Help: family.GetHelp()}, names)
			registry.MustRegister(made)
			for _, each := range family.Metric {
				one := made.WithLabelValues(labelValues(each)...)
				changes = append(changes, func(by float64) { one.Add(by) })
			}
		case dto.MetricType_HISTOGRAM:
			made := prometheus.NewHistogramVec(prometheus.HistogramOpts{
				Name: family.GetName(), Help: family.GetHelp(), Buckets: bounds(family),
			}, names)
			registry.MustRegister(made)
			for _, each := range family.Metric {
				one := made.WithLabelValues(labelValues(each)...)
				changes = append(changes, func(by float64) { one.Observe(by / 1e6) })
			}
		default:
			made := prometheus.NewGaugeVec(
				prometheus.GaugeOpts{Name: family.GetName(), Help: family.GetHelp()}, names)
			registry.MustRegister(made)
			for _, each := range family.Metric {
				one := made.WithLabelValues(labelValues(each)...)
				changes = append(changes, func(by float64) { one.Set(by) })
			}
		}
	}
	return changes
}

func labelNames(family *dto.MetricFamily) (names []string) {
	for _, pair := range family.Metric[0].Label {
		names = append(names, pair.GetName())
	}
	return
}

func labelValues(metric *dto.Metric) (values []string) {
	for _, pair := range metric.Label {
		values = append(values, pair.GetValue())
	}
	return
}

func bounds(family *dto.MetricFamily) (found []float64) {
	for _, bucket := range family.Metric[0].Histogram.Bucket {
		if bucket.GetUpperBound() < 1e300 {
			found = append(found, bucket.GetUpperBound())
		}
	}
	return
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
