// The smallest picture and sound there are.
export const PIXEL = Buffer.from(
  "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082",
  "hex",
).toString("base64");
export const SILENCE = Buffer.from(
  "524946462600000057415645666d7420100000000100010040" + "1f0000803e00000200100064617461020000000000",
  "hex",
).toString("base64");
export const text = (value) => ({ type: "text", text: value });
export const user = (content) => ({ role: "user", content });
