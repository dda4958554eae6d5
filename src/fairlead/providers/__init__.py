"""How partners are called: each is a file, and one exchange serves them all.

    spec         what a provider file says; spec_files.py reads it, specs/ has those that ship
    exchange     one exchange: sent, polled, read by answers.py and forms.py
    attempts     which credential, and whether a call is sent again; health.py has cooldowns
    credentials  what a partner is shown
    storage      an operator's storage that partners write to

It imports the domain, what reads documents, and the HTTP client. No code is for one partner.
"""
