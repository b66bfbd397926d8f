use super::*;

fn attempt() -> Attempt {
    Attempt {
        cluster: ClusterId::local(),
        operation: Operation::Update,
        target: "ConfigMap `shop/web`".to_owned(),
    }
}

fn error(code: u16, body: &str) -> ApiError {
    let response = ApiResponse {
        status: StatusCode::from_u16(code).unwrap(),
        headers: HeaderMap::new(),
        body: body.to_owned().into(),
        foreign: false,
    };
    ApiError::from_response(attempt(), &response)
}

#[test]
fn status_codes_map_to_failure_reasons() {
    let classes = [
        (400, FailureReason::Invalid),
        (401, FailureReason::Unauthorized),
        (403, FailureReason::Forbidden),
        (404, FailureReason::NotFound),
        (409, FailureReason::Conflict),
        (413, FailureReason::Invalid),
        (422, FailureReason::Invalid),
        (429, FailureReason::Throttled),
        (500, FailureReason::ServerError),
        (503, FailureReason::ServerError),
        (504, FailureReason::Timeout),
    ];
    for (code, reason) in classes {
        assert_eq!(error(code, "").reason(), reason, "{code}");
    }
    let slow = r#"{"kind":"Status","reason":"ServerTimeout","code":500,"message":"m","details":{"retryAfterSeconds":2}}"#;
    assert_eq!(error(500, slow).reason(), FailureReason::Timeout);
    assert_eq!(error(500, slow).retry(), Retry::After(Duration::from_secs(2)));
}

#[test]
fn a_denial_by_an_admission_webhook_is_invalid_whatever_its_code() {
    let denied = |code: u16| {
        let body = format!(
            r#"{{"kind":"Status","reason":"Forbidden","code":{code},"message":"admission webhook \"a.example.com\" denied the request: no"}}"#
        );
        error(code, &body).reason()
    };
    assert_eq!(denied(400), FailureReason::Invalid);
    assert_eq!(denied(403), FailureReason::Invalid);
    let plain = r#"{"kind":"Status","reason":"Forbidden","code":403,"message":"configmaps is forbidden: User \"a\" cannot create"}"#;
    assert_eq!(error(403, plain).reason(), FailureReason::Forbidden);
}

#[test]
fn limits_the_delay_that_a_server_asks_for() {
    let endless =
        r#"{"kind":"Status","reason":"TooManyRequests","code":429,"details":{"retryAfterSeconds":31536000}}"#;
    assert_eq!(error(429, endless).retry(), Retry::After(Duration::from_secs(60)));
    // The header precedes the body.
    let asked = |header: &str| {
        let headers = HeaderMap::from_iter([(header::RETRY_AFTER, header.parse().unwrap())]);
        let response = ApiResponse {
            status: StatusCode::TOO_MANY_REQUESTS,
            headers,
            body: endless.into(),
            foreign: false,
        };
        ApiError::from_response(attempt(), &response).retry()
    };
    assert_eq!(asked("7"), Retry::After(Duration::from_secs(7)));
    for header in
        ["31536000", "18446744073709551615", "99999999999999999999", "-1", "Fri, 31 Dec 9999 23:59:59 GMT"]
    {
        assert_eq!(asked(header), Retry::After(Duration::from_secs(60)), "{header}");
    }
}

#[test]
fn a_response_that_is_not_a_status_is_never_quoted() {
    for body in ["s3cret", r#"{"kind":"Secret","message":"s3cret"}"#, "<html>s3cret</html>"] {
        let error = error(502, body);
        assert_eq!(
            error.to_string(),
            "cannot update ConfigMap `shop/web` in cluster `local`: the server answered 502 Bad Gateway"
        );
        assert!(!format!("{error:?}").contains("s3cret"));
    }
}

#[test]
fn messages_are_one_bounded_line_without_control_characters() {
    let long = format!(r#"{{"kind":"Status","message":"\u001b[31mred\n\ttext\u0000 {}"}}"#, "é".repeat(5000));
    let error = error(400, &long);
    let message = error.message();
    assert!(message.starts_with("[31mred text é"), "{message}");
    assert!(message.len() <= MAX_MESSAGE && message.contains(" … "));
}

#[test]
fn a_long_message_keeps_its_end() {
    let value = "x".repeat(5000);
    let body = format!(
        r#"{{"kind":"Status","message":"Job.batch \"j\" is invalid: spec.template: Invalid value: {value}: field is immutable"}}"#
    );
    let error = error(422, &body);
    let message = error.message();
    assert!(
        message.starts_with("Job.batch \"j\" is invalid: spec.template: Invalid value: xxx"),
        "{message}"
    );
    assert!(message.ends_with("xxx: field is immutable"), "{message}");
    assert!(message.len() <= MAX_MESSAGE);
}

#[test]
fn conflicts_name_the_manager_of_each_field() {
    let body = r#"{"kind":"Status","status":"Failure","reason":"Conflict","code":409,"message":"Apply failed with 2 conflicts",
        "details":{"causes":[
            {"reason":"FieldManagerConflict","message":"conflict with \"kubectl\" using v1","field":".data.key"},
            {"reason":"FieldManagerConflict","message":"conflict with \"other\" with subresource \"scale\" using apps/v1 at 2026-01-01T00:00:00Z",
             "field":".metadata.labels.applyset.kubernetes.io/part-of"},
            {"reason":"FieldValueInvalid","message":"x","field":"y"}]}}"#;
    let error = error(409, body);
    assert_eq!(error.conflicts().len(), 2);
    assert_eq!(error.conflicts()[0], FieldConflict { field: ".data.key".into(), manager: "kubectl".into() });
    assert_eq!(error.label_conflict(kross_api::labels::APPLYSET_PART_OF).unwrap().manager, "other");
    assert_eq!(error.label_conflict("tier"), None);
    assert_eq!(error.retry(), Retry::Backoff);
}

#[test]
fn distinguishes_missing_objects_and_namespaces_from_unexplained_answers() {
    let missing = |details: &str| {
        let body = format!(
            r#"{{"kind":"Status","reason":"NotFound","code":404,"message":"m","details":{details}}}"#
        );
        error(404, &body).missing().cloned()
    };
    assert_eq!(missing(r#"{"name":"web","kind":"configmaps"}"#), Some(Missing::Object));
    assert_eq!(missing(r#"{"name":"shop","kind":"namespaces"}"#), Some(Missing::Namespace("shop".into())));
    assert_eq!(missing("{}"), Some(Missing::Unexplained));
}

#[test]
fn a_status_explains_a_404_only_if_it_names_the_requested_object() {
    let missing = |details: &str, namespace, name| {
        let body = format!(r#"{{"kind":"Status","reason":"NotFound","code":404,"details":{details}}}"#);
        Status::read(body.as_bytes()).unwrap().about(namespace, name).missing
    };
    let web = r#"{"name":"web","kind":"configmaps"}"#;
    assert_eq!(missing(web, Some("shop"), "web"), Some(Missing::Object));
    assert_eq!(missing(web, Some("shop"), "other"), Some(Missing::Unexplained));
    assert_eq!(missing(web, Some("shop"), ""), Some(Missing::Unexplained), "a list is not about an object");
    let shop = r#"{"name":"shop","kind":"namespaces"}"#;
    assert_eq!(missing(shop, Some("shop"), "web"), Some(Missing::Namespace("shop".into())));
    assert_eq!(missing(shop, Some("other"), "web"), Some(Missing::Unexplained));
}

#[test]
fn messages_have_no_characters_that_are_not_shown_or_turn_text_around() {
    let body = "{\"kind\":\"Status\",\"message\":\"a\u{202e}txet\u{2066}b\u{200b}c\u{feff}\u{e0041} \\u001b[31md é 日本\"}";
    assert_eq!(error(422, body).message(), "a txet b c [31md é 日本");
}

#[test]
fn a_connection_failure_is_a_failed_connect_operation() {
    let refused =
        TransportError::Connect { authority: "eu:443".into(), problem: "connection refused".into() };
    let error = ApiError::from_transport(attempt(), &refused);
    assert_eq!((error.reason(), error.operation()), (FailureReason::Unreachable, Operation::Connect));
    assert_eq!(
        error.to_string(),
        "cannot connect to cluster `local` for ConfigMap `shop/web`: cannot connect to `eu:443`: connection refused"
    );
    let wrong = TransportError::Tls {
        authority: "eu:443".into(),
        problem: "UnknownIssuer".into(),
        certificate: true,
    };
    assert_eq!(ApiError::from_transport(attempt(), &wrong).reason(), FailureReason::Credentials);
}

#[test]
fn the_message_about_an_object_with_values_of_a_secret_has_only_reason_and_field() {
    let invalid = r#"{"kind":"Status","reason":"Invalid","code":422,
        "message":"Service \"web\" is invalid: spec.type: Unsupported value: \"hunter2\"",
        "details":{"causes":[{"reason":"FieldValueNotSupported","field":"spec.type","message":"Unsupported value: \"hunter2\""},
            {"field":"data[hunter2]","message":"hunter2"},{"field":".data.hunter2"},{"field":"metadata.labels.hunter2"}]}}"#;
    assert!(error(422, invalid).message().contains("hunter2"));
    assert_eq!(
        error(422, invalid).message_without_values(),
        "the server answered 422 Unprocessable Entity (Invalid) about `spec.type`, `data`, `metadata.labels`; its message is \
         not shown, because the object may have values of a Secret"
    );
    for (code, message) in [
        (403, "admission webhook 'x' denied the request: hunter2 is forbidden: User 'b' cannot get"),
        (409, "Apply failed with 1 conflict: conflict with 'kubectl': .data.hunter2"),
        (400, "hunter2"),
        (500, "Internal error occurred: failed calling webhook: hunter2"),
    ] {
        let body = format!(r#"{{"kind":"Status","reason":"hunter2 x","code":{code},"message":"{message}"}}"#);
        let shown = error(code, &body).message_without_values().into_owned();
        assert!(!shown.contains("hunter2") && shown.contains(&code.to_string()), "{shown}");
    }
    // What API servers say without looking at the object is shown.
    let forbidden = r#"{"kind":"Status","reason":"Forbidden","code":403,
        "message":"secrets \"a\" is forbidden: User \"agent\" cannot patch resource \"secrets\" in API group \"\""}"#;
    assert_eq!(error(403, forbidden).message_without_values(), error(403, forbidden).message());
}
