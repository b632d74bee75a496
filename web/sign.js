// Makes passkeys, and signs decisions with them. What is signed is built here from what the page shows, not from what
// the server says that it is; both must be the same.
const text = new TextEncoder();
const bytes = (part) => (typeof part === "string" ? text.encode(part) : new Uint8Array(part));
const join = (...parts) => Uint8Array.from(parts.flatMap((part) => [...bytes(part)]));
const hex = (raw) => Array.from(raw, (b) => b.toString(16).padStart(2, "0")).join("");
const unhex = (digits) => Uint8Array.from(digits.match(/../g) ?? [], (two) => parseInt(two, 16));
const base64 = (raw) => btoa(Array.from(raw, (b) => String.fromCharCode(b)).join(""));
const base64url = (raw) => base64(raw).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const unbase64 = (packed) => Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
const number = (count, size) => new Uint8Array(size).map((_, i) => Math.floor(count / 256 ** (size - 1 - i)) % 256);
const sha = async (...parts) => new Uint8Array(await crypto.subtle.digest("SHA-256", join(...parts)));
const keyed = async (salt, ...parts) => {
  const key = await crypto.subtle.importKey("raw", salt, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, join(...parts)));
};
// A string of SSH's encoding (RFC 4251), and reading them.
const put = (part) => join(number(bytes(part).length, 4), part);
const strings = (raw) => {
  const found = [];
  for (let i = 0; i < raw.length; ) {
    const end = i + 4 + raw.slice(i, i + 4).reduce((sum, b) => sum * 256 + b, 0);
    found.push(raw.slice(i + 4, end));
    i = end;
  }
  return found;
};
// The one spelling of a JSON value (RFC 8785).
const canonical = (value) => {
  if (Array.isArray(value)) return `[${value.map(canonical)}]`;
  // JSON spells what is too large for a number as null.
  if (typeof value === "number") check(Number.isFinite(value), "a number is too large for a browser: use the command");
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const member = (name) => `${JSON.stringify(name)}:${canonical(value[name])}`;
  return `{${Object.keys(value).sort().map(member)}}`;
};

const NAMESPACE = "wicketgate-approval";
const PASSKEY = "sk-ecdsa-sha2-nistp256@openssh.com";
const STRING = String.raw`"(?:[^"\\]|\\.)*"`;
const said = document.querySelector("#said");
const say = (sentence) => {
  said.textContent = sentence;
};
const check = (holds, sentence) => {
  if (!holds) throw new TypeError(sentence);
};
const why = (error) => {
  if (error.name === "SecurityError") return "Browsers use passkeys only where the console has a host name: open it by one, such as localhost.";
  if (error.name === "NotAllowedError") return "Nothing was signed: the passkey was refused, took too long, or is not on this device.";
  return `Nothing was signed: ${error.message}.`;
};
const ready = () => check(window.PublicKeyCredential, "this browser has no passkeys here; they need TLS, or localhost");

// What an element shows, without the marks of what cannot be seen.
const plain = (shown) => shown.replace(/\\(?:\\|u\{([0-9a-f]+)\})/g, (_, code) => (code ? String.fromCodePoint(parseInt(code, 16)) : "\\"));
const all = (name) => Array.from(document.querySelectorAll(`[data-is="${name}"]`), (one) => plain(one.textContent));
const one = (name) => all(name).join("\0");
// The arguments as a person reads them, in their one spelling again.
const packed = (shown) =>
  shown.replace(new RegExp(`${STRING}|\\s+`, "g"), (part) =>
    part[0] !== '"' ? "" : part.replace(/\\u\{([0-9a-f]+)\}|\\./g, (mark, code) => (code ? JSON.stringify(String.fromCodePoint(parseInt(code, 16))).slice(1, -1) : mark)),
  );

// Name and value of each member of an object, as they are spelled.
const members = (object) => {
  const found = [];
  let depth = 0;
  for (const token of object.match(new RegExp(`${STRING}|[{}[\\],:]|[^{}[\\],:"]+`, "g")) ?? []) {
    if ("}]".includes(token)) depth -= 1;
    if (depth === 1 && token === ",") found.push("");
    else if (depth > 0) found.push((found.pop() ?? "") + token);
    if ("{[".includes(token)) depth += 1;
  }
  const name = new RegExp(`^${STRING}`);
  return found.map((member) => [member.match(name)[0], member.replace(name, "").slice(1)]);
};
const commitment = async (salt, args) => {
  const length = number(bytes(args).length, 8);
  const parts = members(args);
  if (parts.length === 0 || parts.length > 256) return sha("wicketgate/commit/1\0", salt, length, args);
  const digest = async ([name, value]) => {
    const own = base64url(await keyed(salt, "member:", JSON.parse(name)));
    return hex(await sha(base64url(text.encode(`["${own}",${name},${value}]`))));
  };
  const digests = (await Promise.all(parts.map(digest))).sort();
  const whole = await sha("wicketgate/whole/2\0", await keyed(salt, "whole"), length, args);
  return sha("wicketgate/commit/2\0", whole, await sha("wicketgate/members/2\0", ...digests.map(unhex)));
};

// The statement about the call that the page shows.
const statement = async (signing, form) => {
  const salt = unhex(signing.dataset.salt);
  const [args, run, call, tool] = ["bytes", "run", "call", "tool"].map(one);
  check(packed(document.querySelector('[data-is="arguments"]').textContent) === args, "the page shows the arguments in two ways that differ");
  const args_commitment = hex(await commitment(salt, args));
  const call_digest = hex(await sha("wicketgate/call/1\0", canonical({ args_commitment, call, run, tool })));
  check(call_digest === one("digest"), "the arguments on this page are not those of the digest. Do not sign this call");
  const digests = all("layer-digest");
  const about = {
    call_digest,
    expires: document.querySelector('[data-is="expires"] time').dateTime,
    layers: all("layer").map((layer, i) => ({ digest: digests[i], layer })),
    manifest: one("manifest"),
    nonce: signing.dataset.nonce,
    run,
    verdict: form.elements.verdict.value,
  };
  const definition = one("definition");
  if (definition.includes(":")) about.definition = definition;
  if (about.verdict !== "modify") {
    const built = canonical(about);
    check(built === plain(signing.dataset[about.verdict]), "the server would have you sign something else than this page shows. Do not sign this call");
    return built;
  }
  const other = form.elements.arguments.value;
  check(!/\d{16}/.test(other.replace(new RegExp(STRING, "g"), "")), "a number is too long for a browser: use the command");
  const proposed = canonical(JSON.parse(other));
  check(proposed[0] === "{", "the arguments are not one JSON object");
  form.elements.arguments.value = proposed;
  about.arguments = hex(await keyed(salt, "arguments:", proposed));
  return canonical(about);
};

// The SSHSIG of one of these keys over a statement. The challenge is what any other SSH key signs.
const signature = async (keys, stated) => {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-512", text.encode(stated)));
  const purpose = join(put(NAMESPACE), put(""), put("sha512"));
  const domains = keys.map((key) => new TextDecoder().decode(strings(key)[3]));
  const rpId = domains.find((domain) => domain === location.hostname) ?? domains[0];
  const challenge = join("SSHSIG", purpose, put(hash));
  const { response } = await navigator.credentials.get({ publicKey: { challenge, rpId, userVerification: "required" } });
  const [known, client, der] = [response.authenticatorData, response.clientDataJSON, response.signature].map(bytes);
  // ECDSA's two numbers: in DER as in SSH, after one byte of length.
  const r = der.slice(4, 4 + der[3]);
  const s = der.slice(6 + der[3]);
  const fixed = join(...[r, s].map((half) => join(new Uint8Array(32), half).slice(-32)));
  const covered = join(known, await sha(client));
  const kind = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
  for (const key of keys) {
    const point = await crypto.subtle.importKey("raw", strings(key)[2], kind, false, ["verify"]);
    if (!(await crypto.subtle.verify(kind, point, fixed, covered))) continue;
    const { origin } = JSON.parse(new TextDecoder().decode(client));
    const sealed = join(put(`webauthn-${PASSKEY}`), put(join(put(r), put(s))), known.slice(32, 37), put(origin), put(client), put(known.slice(37)));
    const blob = join("SSHSIG", number(1, 4), put(key), purpose, put(sealed));
    return `-----BEGIN SSH SIGNATURE-----\n${base64(blob).match(/.{1,70}/g).join("\n")}\n-----END SSH SIGNATURE-----\n`;
  }
  throw new TypeError("this passkey is not yours on the signed list of approvers");
};

const signing = document.querySelector("#signing");
for (const form of signing?.querySelectorAll("form") ?? []) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const buttons = signing.querySelectorAll("button");
    buttons.forEach((button) => (button.disabled = true));
    say("Your browser asks for your passkey.");
    try {
      ready();
      const stated = await statement(signing, form);
      const armored = await signature(signing.dataset.keys.split(" ").map(unbase64), stated);
      form.elements.statement.value = stated;
      form.elements.signature.value = armored;
      say("Signed. The gate is asked.");
      form.submit();
    } catch (error) {
      say(why(error));
      buttons.forEach((button) => (button.disabled = false));
    }
  });
}
if (signing) {
  const instant = (of) => Date.parse(document.querySelector(`${of} time`).dateTime);
  setTimeout(() => {
    say("The hold has ended: the call did not run, and nothing can be signed any more.");
    signing.querySelectorAll("button").forEach((button) => button.remove());
  }, Math.min(instant('[data-is="expires"]') - instant("footer"), 2 ** 31 - 1));
}

const enrolment = document.querySelector("#enrolment");
const make = enrolment?.querySelector("button");
make?.addEventListener("click", async () => {
  try {
    ready();
    const subject = plain(enrolment.dataset.subject);
    const { response } = await navigator.credentials.create({
      publicKey: {
        rp: { id: location.hostname, name: "Wicketgate" },
        // A name of its own: a new passkey takes the place of none that is on the list.
        user: { id: crypto.getRandomValues(new Uint8Array(16)), name: subject, displayName: subject },
        challenge: crypto.getRandomValues(new Uint8Array(32)),
        pubKeyCredParams: [{ type: "public-key", alg: -7 }],
        authenticatorSelection: { residentKey: "required", userVerification: "required" },
        attestation: "none",
      },
    });
    check(response.getPublicKeyAlgorithm() === -7, "the passkey is of another kind than ES256");
    const point = bytes(response.getPublicKey()).slice(-65);
    const key = join(put(PASSKEY), put("nistp256"), put(point), put(location.hostname));
    const line = enrolment.querySelector("textarea");
    line.value = `${subject} namespaces="${NAMESPACE}" ${PASSKEY} ${base64(key)} roles=approver`;
    line.parentElement.hidden = false;
    line.select();
    say("The passkey is made. It counts for nothing yet: the line below must come into the signed list of approvers.");
  } catch (error) {
    say(why(error).replace("Nothing was signed", "No passkey was made"));
  }
});
if (make) {
  make.disabled = false;
  say("");
}
