"""Files: of results and of workflows.

links        where a partner's answer has links, and how one is replaced by ours
media_types  what a file is served as
records      the fields of an asset
filenames    names of files, and what a workflow means by one
faults       why requests about assets are refused
"""
