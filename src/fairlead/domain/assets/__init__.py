"""Files: of results and of workflows.

links        where a partner's answer has links, and how one is exchanged for ours
media_types  what a file is served as
records      what may be said of an asset as it is made
filenames    names of files, and what a workflow means by one
faults       what can be refused of assets
"""
