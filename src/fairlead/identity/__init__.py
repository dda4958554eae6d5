"""Who a bearer of a JSON Web Token is: tokens verified against the keys of their issuer."""
