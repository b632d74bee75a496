"""`wicketgate control injector certs` as the chart starts it, against an API server: certs.py FOLDER-OF-THE-PROGRAM."""

import base64
import copy
import datetime
import pathlib
import ssl
import subprocess
import sys
import tempfile

from apiserver import Api, authority
from injection import made
from rendering import examples, pods

HOST = "demo-wicketgate-injector.agents.svc"
SECRET = "/api/v1/namespaces/agents/secrets/demo-wicketgate-injector-tls"
HOOKS = [f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/agents-demo-wicketgate-injector" for kind in ("mutating", "validating")]
START = datetime.datetime(2027, 1, 1, tzinfo=datetime.timezone.utc)


def secret(api):
    return {name: base64.b64decode(text).decode() for name, text in api.objects[SECRET].get("data", {}).items()}


def bundles(api):
    return [base64.b64decode(hook["clientConfig"].get("caBundle", "")).decode() for path in HOOKS for hook in api.objects[path]["webhooks"]]


def verifies(home, leaf, bundle, at):
    """Whether a TLS client with this bundle takes the server at this time."""
    (home / "leaf.pem").write_text(leaf)
    (home / "bundle.pem").write_text(bundle)
    words = ["verify", "-attime", int(at.timestamp()), "-purpose", "sslserver", "-verify_hostname", HOST, "-CAfile", home / "bundle.pem", home / "leaf.pem"]
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True)
    return done.returncode == 0


def handshake(home, contents, bundle):
    """A TLS connection in memory: the server shows the certificate, the client has the bundle and asks for the Service."""
    for name in ("tls.crt", "tls.key"):
        (home / name).write_text(contents[name])
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cadata=bundle)
    server.load_cert_chain(home / "tls.crt", home / "tls.key")
    pipes = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(*pipes, server_hostname=HOST), server.wrap_bio(*reversed(pipes), server_side=True)]
    for turn in range(8):
        try:
            ends[turn % 2].do_handshake()
        except ssl.SSLWantReadError:
            pass
    return ends[0].version(), ends[0].getpeercert()["subjectAltName"]


class Certs:
    """The command, with the arguments that the chart gives its CronJob."""

    def __init__(self, programs, home, api, all_of_it):
        [spec] = [spec for one, spec in pods(all_of_it) if one["kind"] == "CronJob"]
        own = {"--ca-file": home / "api.crt", "--token-file": home / "token"}
        words = [word.replace("$(NAMESPACE)", "agents").split("=", 1) for word in spec["containers"][0]["args"]]
        words = [f"{word[0]}={own.get(word[0], word[1])}" if len(word) == 2 else word[0] for word in words]
        self.command, self.home = [programs / "wicketgate", *words, f"--api={api.place}"], home

    def run(self, at=None, fails=False):
        words = [] if at is None else [f"--now={at:%Y-%m-%dT%H:%M:%SZ}"]
        done = subprocess.run([*self.command, *words], env={}, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert (done.returncode == 1) == fails and done.returncode in (0, 1), done.stdout + done.stderr
        return done.stdout + done.stderr


def allowed(asked, all_of_it):
    """Holds requests to the roles of the chart."""
    rules = [rule for one in all_of_it if one["kind"] in ("Role", "ClusterRole") for rule in one["rules"]]
    verbs = {"GET": "get", "PUT": "update", "PATCH": "patch"}
    for method, path in asked:
        *_, resource, name = path.split("/")
        assert any(verbs[method] in rule["verbs"] and resource in rule["resources"] and name in rule["resourceNames"] for rule in rules), (method, path)


def main(programs):
    all_of_it = made(examples()["injector"])
    with tempfile.TemporaryDirectory() as folder:
        home = pathlib.Path(folder)
        (home / "token").write_text("the-token-of-the-service-account-of-the-job")
        (home / "token").chmod(0o600)
        with Api(tls=authority(home), token="the-token-of-the-service-account-of-the-job") as api:
            kinds = {"Secret": [SECRET], "MutatingWebhookConfiguration": HOOKS[:1], "ValidatingWebhookConfiguration": HOOKS[1:]}
            fresh = {path: one for one in all_of_it for path in kinds.get(one["kind"], [])}
            assert fresh.keys() == {SECRET, *HOOKS}, fresh.keys()
            api.objects.update(copy.deepcopy(fresh))
            certs = Certs(programs, home, api, all_of_it)

            # Today, by the real clock: the first certificate, and a connection.
            said = certs.run()
            assert "made an authority" in said and f"signed a certificate: {HOST}" in said and "had no authorities" not in said, said
            assert len(set(bundles(api))) == 1 and bundles(api)[0] == secret(api)["ca.crt"], bundles(api)
            version, names = handshake(home, secret(api), bundles(api)[0])
            assert version == "TLSv1.3" and names == (("DNS", HOST),), (version, names)
            allowed(api.asked, all_of_it)
            before = len([one for one in api.asked if one[0] != "GET"])
            said = certs.run()
            assert "the certificate stays" in said and len([one for one in api.asked if one[0] != "GET"]) == before, said

            years(certs, api, home, fresh)
            faults(certs, api, fresh)
            allowed(api.asked, all_of_it)
    print("every certificate verified against every bundle")


def years(certs, api, home, fresh):
    """Once a week for fifteen months: each certificate that has not ended verifies against each bundle that was ever in force meanwhile."""
    api.objects.update(copy.deepcopy(fresh))
    leaves, told, checked = [], "", 0
    for week in range(65):
        now = START + datetime.timedelta(weeks=week)
        if week == 50:
            # Applied again, without the bundle.
            api.objects[HOOKS[0]] = {**copy.deepcopy(fresh[HOOKS[0]]), "metadata": api.objects[HOOKS[0]]["metadata"]}
        said = certs.run(now)
        assert ("had no authorities" in said) == (week == 50), f"{week}: {said}"
        told += said
        leaf = secret(api)["tls.crt"]
        leaves += [(now, leaf)] if not leaves or leaves[-1][1] != leaf else []
        # A replica may still show one from before this run; none of them is older than its life.
        shown = [one for begins, one in leaves if now < begins + datetime.timedelta(days=30)]
        for one in shown:
            for bundle in set(bundles(api)):
                assert verifies(home, one, bundle, now), f"week {week}"
                checked += 1
    assert told.count("announced the next authority") == 1 and told.count("the announced authority signs") == 1 and told.count("made an authority") == 1, told
    assert len(leaves) >= 20 and checked > 80, (len(leaves), checked)
    assert secret(api)["ca.crt"].count("BEGIN") == 1 and "next.crt" not in secret(api), "the old authority stays"
    # The check can fail.
    assert not verifies(home, leaves[0][1], bundles(api)[0], START) and not verifies(home, leaves[-1][1], bundles(api)[0], START)


def faults(certs, api, fresh):
    """What the API server refuses, and what was changed meanwhile, is said and changes nothing."""
    api.objects.update(copy.deepcopy(fresh))
    certs.run(START)
    good = copy.deepcopy(api.objects)
    later = START + datetime.timedelta(days=21)

    kept = api.objects
    # Another run writes the Secret between our reading and our writing.
    api.taken.add(SECRET)
    said = certs.run(later, fails=True)
    assert f"PUT {SECRET}: the API server answers 409: the object has been modified" in said, said
    api.taken.clear()
    (certs.home / "token").write_text("the-token-of-the-service-account-of-another")
    said = certs.run(later, fails=True)
    assert "the API server answers 401: Unauthorized" in said, said
    (certs.home / "token").write_text("the-token-of-the-service-account-of-the-job")
    del kept[SECRET]
    said = certs.run(later, fails=True)
    assert f"GET {SECRET}: the API server answers 404" in said, said
    kept.update(copy.deepcopy(good))
    kept[HOOKS[0]]["webhooks"][0]["clientConfig"] = {"url": "https://example.org"}
    said = certs.run(later, fails=True)
    assert "`mutating/agents-demo-wicketgate-injector`: a webhook has no `clientConfig.service`" in said, said
    assert kept[SECRET] == good[SECRET], "something was written"
    # A Secret that holds nonsense is as good as none, and what it held before still verifies.
    kept.update(copy.deepcopy(good))
    kept[SECRET]["data"] = {"signing.crt": "AAAA", "signing.key": "%%%", "tls.crt": ""}
    said = certs.run(later)
    assert "made an authority" in said and bundles(api)[0].count("BEGIN") == 2, said


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
