#!/usr/bin/env bash
# The whole chain in one command: train, eval, export, infer.
#
#     bash run_chain.sh            a short training (20 steps), then its weights through all stages
#     bash run_chain.sh --full     the training that config.json describes
#
# Without data in the repository: predict, export, infer, with the weights that are here.  PYTHON
# names another Python.  Writes log/chain.log: of each stage its command, what it said, its exit
# status and its seconds.  Exit status: 0 all stages passed, 1 one did not.
cd "$(dirname "$0")" && mkdir -p log || exit 1
python=${PYTHON:-python}
export GLOG_minloglevel=${GLOG_minloglevel:-2} # Paddle's errors, and not its remarks

stage() {
    local name=$1 started=$SECONDS status
    shift
    [ -f "$1" ] || { echo "$name: left out, there is no $1: see README.md"; return; }
    echo "$name: python $*"
    "$python" -W ignore "$@" 2>&1 | sed "s/^/$name: /"
    status=${PIPESTATUS[0]}
    echo "$name: exit status $status, $((SECONDS - started)) s"
    [ "$status" = 0 ] || { echo "chain: failed in $name"; exit 1; }
}

{
    "$python" --version && "$python" -m pip freeze | grep -i -E '^(paddlepaddle|numpy)'
    if [ -f train.py ]; then
        [ "$1" = --full ] && short=() || short=(--epochs 1 --steps 20)
        weights=(--weights output/best.pdparams)
        stage train train.py "${short[@]}"
        stage eval eval.py "${weights[@]}"
    else
        weights=()
        stage predict predict.py
    fi
    stage export export.py "${weights[@]}"
    stage infer infer.py
    echo "chain: passed"
} 2>&1 | tee log/chain.log
exit "${PIPESTATUS[0]}"
