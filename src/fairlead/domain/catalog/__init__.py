"""What can be run: models, their schemas, and who serves them.

models        Catalog, Model and Leg, and pages of a list of models; operations.py what can be done with one
schema        schemas of inputs, and the documents made of them; body.py what they are applied to
translations  from one provider's form into another's
strict_forms  bodies in a provider's own form, refused where they have no price
identifiers   the grammar of model ids
partner_*     what nodes of partners' models are, made of their schemas
"""
