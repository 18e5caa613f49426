from twincheck.common.system.reasons import own_kinds

Kind = own_kinds()
