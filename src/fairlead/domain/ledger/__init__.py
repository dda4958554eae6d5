"""Prices and money, in integers of 10^-8 dollars.

money      amounts, as dollars and as platform credits
rates      a hold from the body, a charge from the answer; strict_rates.py for bodies in a provider's own form
books      what an entry does to a workspace's figures, and who may have a slot
budgets    budgets of API keys
estimates  what a call would cost, and a rate card in words; markups.py what an operator adds to list prices
usage      what was used, added up
"""
