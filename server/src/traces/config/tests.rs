use coord_core::ErrorKind;

use super::*;

const AT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318/");

fn config(pairs: &[(&str, &str)]) -> Result<Option<Config>> {
    let pairs = [AT].into_iter().chain(pairs.iter().copied());
    Config::from_env(&Env::from_pairs(pairs))
}

fn there(pairs: &[(&str, &str)]) -> Config {
    config(pairs).expect("it reads").expect("a collector")
}

fn named(pairs: &[(&str, &str)]) -> Vec<String> {
    let env = Env::from_pairs(pairs.iter().copied());
    let found = without_effect(&env).expect("it reads");
    found.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn what_is_documented_is_what_holds() {
    let defaults = VARIABLES.iter().map(|one| (one.name, one.default));
    let defaults: Vec<_> = defaults
        .filter(|(_, default)| !default.is_empty())
        .collect();

    let documented = format!("{:?}", there(&defaults));

    assert_eq!(documented, format!("{:?}", there(&[])));
}

#[test]
fn without_a_collector_or_when_told_so_nothing_is_sent() {
    assert!(
        Config::from_env(&Env::default())
            .expect("it reads")
            .is_none()
    );
    for pair in [
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_TRACES_EXPORTER", "none"),
    ] {
        assert!(config(&[pair]).expect("it reads").is_none(), "{pair:?}");
    }
}

#[test]
fn the_path_is_added_to_the_endpoint_of_all_and_not_to_that_of_traces() {
    assert_eq!(there(&[]).url.as_str(), "http://127.0.0.1:4318/v1/traces");
    let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://collector/in");
    assert_eq!(there(&[own]).url.as_str(), "http://collector/in");
}

#[test]
fn headers_are_decoded() {
    let of = |text| there(&[("OTEL_EXPORTER_OTLP_HEADERS", text)]).headers;

    let headers = of("authorization=Bearer%20a%3Db, x-tenant = acme ,");

    assert_eq!(headers["authorization"], "Bearer a=b");
    assert_eq!(headers["x-tenant"], "acme");
    assert!(headers["authorization"].is_sensitive());
}

#[test]
fn a_process_says_which_service_it_is_and_which_of_its_processes() {
    let value = |config: &Config, name| {
        let mut found = config.resource.iter().filter(|(set, _)| set == name);
        let value = found.next().map(|(_, value)| value.clone());
        assert!(found.next().is_none(), "{name} twice");
        value.expect("it is said")
    };
    let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,zone=eu%2D1");

    let (usual, set) = (there(&[]), there(&[attributes]));
    let named = there(&[attributes, ("OTEL_SERVICE_NAME", "b")]);

    assert_eq!(value(&usual, "service.name"), "coord");
    assert_ne!(
        value(&usual, "service.instance.id"),
        value(&set, "service.instance.id")
    );
    assert_eq!(
        (value(&set, "service.name"), value(&set, "zone")),
        ("a".to_owned(), "eu-1".to_owned())
    );
    assert_eq!(value(&named, "service.name"), "b");
}

#[test]
fn samplers_are_those_of_opentelemetry() {
    let of = |name, part| {
        let pairs = [
            ("OTEL_TRACES_SAMPLER", name),
            ("OTEL_TRACES_SAMPLER_ARG", part),
        ];
        there(&pairs).sampler
    };

    assert_eq!(there(&[]).sampler, Sampler::always().parent_based());
    assert_eq!(of("always_off", "1"), Sampler::never());
    assert_eq!(of("traceidratio", "0.25"), Sampler::ratio(0.25));
    assert_eq!(
        of("parentbased_traceidratio", "0"),
        Sampler::never().parent_based()
    );
}

#[test]
fn what_does_not_read_is_named_and_a_secret_is_not_shown() {
    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://collector"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector:4318"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "s3cret"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=s3cret%0Ab"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "0"),
        ("OTEL_TRACES_EXPORTER", "console"),
        ("OTEL_TRACES_SAMPLER", "sometimes"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1000001"),
    ] {
        let error = config(&[(name, value)]).expect_err(name);
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.message().contains(name), "{name}: {error}");
        assert!(!error.message().contains("s3cret"), "{error}");
    }
    let arg = [
        ("OTEL_TRACES_SAMPLER", "traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "1.5"),
    ];
    let error = config(&arg).expect_err("more than all");
    assert!(
        error.message().contains("OTEL_TRACES_SAMPLER_ARG"),
        "{error}"
    );
}

#[test]
fn what_is_set_without_effect_is_named() {
    let other = [("OTEL_METRICS_EXPORTER", "otlp"), ("PATH", "/")];
    assert_eq!(named(&other), ["OTEL_METRICS_EXPORTER"]);
    assert_eq!(
        named(&[("OTEL_EXPORTER_OTLP_HEADERS", "a=b")]),
        ["OTEL_EXPORTER_OTLP_HEADERS"]
    );
    assert_eq!(named(&[AT, ("OTEL_SDK_DISABLED", "true")]), [AT.0]);
    assert_eq!(
        named(&[AT, ("OTEL_TRACES_SAMPLER_ARG", "1")]),
        ["OTEL_TRACES_SAMPLER_ARG"]
    );
    assert_eq!(
        named(&[AT, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]),
        ["OTEL_EXPORTER_OTLP_PROTOCOL"]
    );
    assert_eq!(
        named(&[AT, ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c")]),
        [AT.0]
    );
    let all = [
        AT,
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("OTEL_TRACES_SAMPLER", "traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "1"),
        ("OTEL_SERVICE_NAME", "a"),
    ];
    assert!(named(&all).is_empty());
}
