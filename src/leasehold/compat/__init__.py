"""Other systems' spellings, translated: each file knows one of them, and of ours only the verbs of `Locks`.

They parse nothing and print nothing: the command line and the server have the words and the routes.
"""
