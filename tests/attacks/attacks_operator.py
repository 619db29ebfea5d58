"""The admin endpoint: a web page whose host name was pointed at 127.0.0.1 must get nothing, and change nothing."""

from attack import Attack, Request

SERVED = frozenset({200})
HOSTS = [
    ("foreign", "attacker.example"),
    ("foreign-with-port", "attacker.example:9090"),
    ("begins-like-an-address", "127.0.0.1.attacker.example"),
    ("begins-like-localhost", "localhost.attacker.example"),
    ("ends-like-localhost", "attackerlocalhost"),
    ("below-localhost", "attacker.localhost.example"),
    ("user", "127.0.0.1@attacker.example"),
    ("trailing-dot", "attacker.example."),
    ("empty", " "),
    ("encoded", "attacker%2eexample"),
    ("two-in-one", "127.0.0.1, attacker.example"),
]
READS = ["/stats", "/metrics"]
WRITES = ["purge", "warm", "pin", "unpin", "off", "on"]
LIST = b"lake/$lake_secret_a\nlake/secret/\t*\n"


def asked(method, path, host, headers=(), target=None, unsigned=()):
    """Sends it to the admin endpoint, and says so when it was answered with data or obeyed."""

    def flow(actor):
        body = LIST if method == "POST" and path.split("/")[-1] not in ("off", "on") else b""
        named = host if host is not None else actor.gateway.admin.host
        request = Request(method, path, "", list(headers), body, host=named, target=target, unsigned=list(unsigned))
        answer = actor.send(request, key=None, to="admin")
        tells = any(word in answer.body for word in (b"zonal_", b'"requests"', b'"sum"', b'"object"', b'"prefix"', b'"shards"'))
        if answer.status == 200 or tells:
            actor.complaints.append(f"{method} {path} for the host {named!r} was answered: {answer}")
        restore(actor)

    return flow


def restore(actor):
    """Takes back what an order changed."""
    for path, body in (("/cache/on", b""), ("/cache/unpin", LIST)):
        request = Request("POST", path, body=body, host=actor.gateway.admin.host)
        actor.send(request, key=None, to="admin")
        actor.sent.pop()
        actor.answers.pop()


def control(path, name):
    def flow(actor):
        host = f"{name}:{actor.gateway.admin.port}" if name else actor.gateway.admin.host
        actor.expect(actor.send(Request("GET", path, host=host), key=None, to="admin"), SERVED, f"{path} for {host}")

    return flow


ATTACKS = []
for word, host in HOSTS:
    for path in READS:
        ATTACKS.append(Attack("operator", f"get{path.replace('/', '-')}-{word}", None, flow=asked("GET", path, host), is_core=word == "foreign"))
for path in WRITES:
    full = f"/cache/{path}"
    ATTACKS.append(Attack("operator", f"post-{path}-foreign", None, flow=asked("POST", full, "attacker.example"), is_core=path == "purge"))
    page = [("Origin", "http://attacker.example")]
    ATTACKS.append(Attack("operator", f"post-{path}-page", None, flow=asked("POST", full, None, page)))
    ATTACKS.append(Attack("operator", f"post-{path}-page-null", None, flow=asked("POST", full, None, [("Origin", "null")])))
    ATTACKS.append(Attack("operator", f"post-{path}-fetch-site", None, flow=asked("POST", full, None, [("Sec-Fetch-Site", "cross-site")])))
    ATTACKS.append(Attack("operator", f"get-{path}", None, flow=asked("GET", full, None)))
for path in READS:
    ATTACKS.append(Attack("operator", f"get{path.replace('/', '-')}-absolute", None, flow=asked("GET", path, None, target=f"http://attacker.example{path}")))
    ATTACKS.append(Attack("operator", f"get{path.replace('/', '-')}-two-hosts", None, flow=asked("GET", path, None, unsigned=[("Host", "attacker.example")])))
    ATTACKS.append(Attack("operator", f"get{path.replace('/', '-')}-no-host", None, flow=asked("GET", path, "")))
    ATTACKS.append(Attack("operator", f"control{path.replace('/', '-')}", None, flow=control(path, "")))
    ATTACKS.append(Attack("operator", f"control{path.replace('/', '-')}-localhost", None, flow=control(path, "localhost")))
