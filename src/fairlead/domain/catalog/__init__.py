"""What can be run: models, their schemas, and who serves them.

models        Catalog, Model and Leg; operations.py what can be done with one
schema        schemas of inputs, and the documents made of them
translations  from one provider's form into another's
strict_forms  bodies in a provider's own form, refused where they have no price
"""
