// An OpenID Connect provider with one client, for tests: `node provider.mjs PORT REDIRECT_URI`.
// Anybody signs in by a name; the claims of a name are those of ACCOUNTS, a JSON object in the environment.
import Provider from "oidc-provider";

const [port, redirectUri] = process.argv.slice(2);
const accounts = JSON.parse(process.env.ACCOUNTS ?? "{}");
const issuer = `http://127.0.0.1:${port}`;
const provider = new Provider(issuer, {
  clients: [{ client_id: "fairlead", client_secret: "a secret: of tests/100%", redirect_uris: [redirectUri] }],
  claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups"] },
  conformIdTokenClaims: false, // claims of scopes stand in the ID token, as most providers have it
  scopes: ["openid", "email", "groups"],
  pkce: { required: () => true },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, ...accounts[id] }) }),
});
provider.listen(Number(port), "127.0.0.1", () => console.log(issuer));
