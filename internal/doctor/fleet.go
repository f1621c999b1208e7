package doctor

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/coppice-dev/coppice/internal/cluster/member"
	"github.com/coppice-dev/coppice/internal/cluster/placing"
	"github.com/coppice-dev/coppice/internal/store/etcd"
)

// fleet looks at this machine as a node of a fleet.
func (d *doctor) fleet(ctx context.Context) {
	m, err := member.Load(d.project.Node())
	if err != nil {
		d.note("node", LevelProblem, "", "%v", err)
		return
	}
	d.note("node", LevelOK, "", "%s, at %s", m.Name(), m.Settings().Advertise)
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	db, err := etcd.Open(ctx, m.Location(), slog.New(slog.DiscardHandler))
	var damaged []*placing.DamagedError
	if err == nil {
		defer db.Close()
		_, damaged, err = placing.Read(ctx, db)
	}
	for _, e := range damaged {
		d.note("place", LevelProblem, "", "%v", e)
	}
	if err == nil {
		err = etcd.CheckRights(ctx, db)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		d.note("store", LevelProblem, "", "%s does not answer within %v", strings.Join(m.Location().Endpoints, ","),
			storeTimeout)
	case err != nil:
		d.note("store", LevelProblem, "", "%v", err)
	default:
		d.note("store", LevelOK, "", "%v answers; see coppice node ls", db)
	}
}

// storeTimeout bounds what is asked of the store of a fleet.
const storeTimeout = 15 * time.Second
