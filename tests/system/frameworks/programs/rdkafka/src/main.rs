//! A consumer of the crate rdkafka: SIGTERM closes it, and a record of its name blocks it.

use std::env::var;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Message};
use tokio::signal::unix::{signal, SignalKind};

fn wanted(name: &str) -> String {
    var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

/// Blocks as slow processing does, if the record names this member: "NAME UNTIL", in milliseconds.
fn handle(record: &BorrowedMessage, member: &str) {
    let text = String::from_utf8_lossy(record.payload().unwrap_or_default()).into_owned();
    if let Some((name, until)) = text.split_once(' ') {
        let until = UNIX_EPOCH + Duration::from_millis(until.parse().expect("milliseconds"));
        if name == member {
            sleep(until.duration_since(SystemTime::now()).unwrap_or_default());
        }
    }
}

#[tokio::main]
async fn main() {
    env_logger::init();
    let member = wanted("MEMBER");
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", wanted("BOOTSTRAP"))
        .set("group.id", wanted("GROUP"))
        .set("client.id", &member)
        .set("auto.offset.reset", "earliest")
        .set("session.timeout.ms", "6000")
        .set("heartbeat.interval.ms", "1000")
        .set("max.poll.interval.ms", "6000");
    if let Ok(contexts) = var("DEBUG_CONTEXTS") {
        config.set("debug", contexts).set_log_level(RDKafkaLogLevel::Debug);
    }
    let consumer: BaseConsumer = config.create().expect("a consumer");
    consumer.subscribe(&[&wanted("TOPIC")]).expect("a subscription");

    let mut stop = signal(SignalKind::terminate()).expect("a signal");
    let mut is_stopping = false;
    while !is_stopping {
        if let Some(Ok(record)) = consumer.poll(Duration::from_millis(100)) {
            handle(&record, &member);
        }
        is_stopping = tokio::time::timeout(Duration::from_millis(1), stop.recv()).await.is_ok();
    }
}
